"""How the tables of a document become attrs classes: cattrs, strict, every fault with its path.

A field's annotation carries its check: ``Annotated[int, Value(whole(0, 9))]`` for a single value,
``Annotated[tuple[Table, ...], Array(0, 100)]`` for an array; a field of an attrs class is a table.
A document has no null, so ``X | None`` only says that the key may be left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Annotated, Any, Final, TypeVar, get_args, get_origin

import attrs
import cattrs
from cattrs.errors import (
    AttributeValidationNote,
    ClassValidationError,
    ForbiddenExtraKeysError,
    IterableValidationError,
    IterableValidationNote,
)
from cattrs.gen import make_dict_structure_fn, override

from omnigate.config.values import BadValueError, did_you_mean, kind_of, quoted

#: Unknown keys of one table for which a known one is suggested: to look for one takes 50
#: microseconds, and a file of nothing but unknown keys would hold a reload for half a minute.
_MAX_SUGGESTIONS: Final = 50

Table = TypeVar("Table")

Hook = Callable[[Any, Any], Any]


@attrs.frozen
class Value:
    """Mark of a field with a single value: ``check`` returns what to keep or raises."""

    check: Callable[[object], object]


@attrs.frozen
class Array:
    """Mark of a field with an array of ``low`` to ``high`` members."""

    low: int
    high: int


@attrs.frozen
class Fault:
    """One thing that is wrong: where (a dotted path, or a line) and what, with the remedy.

    :ivar row: what people call the table that the path begins with, where it has a name; nobody
        counts to ``routes[37]`` in a file.
    """

    path: str
    message: str
    row: str = attrs.field(default="", eq=False)

    def __str__(self) -> str:
        row = f" ({self.row})" if self.row else ""
        return f"{self.path}{row}: {self.message}" if self.path else self.message


#: Keys that are known, but not in this table or this version: what to say in place of "unknown
#: key".
KnownLater = Mapping[tuple[type, str], str]


class Structure:
    """Turns a document into one attrs class and the classes its fields name.

    :ivar root: the class of the whole document.
    """

    def __init__(self, root: type, known_later: KnownLater) -> None:
        self.root: Final = root
        self._known_later: Final = known_later
        self._converter: Final = cattrs.Converter(forbid_extra_keys=True)
        self._hooks: Final[dict[type, Hook]] = {}

    def read(self, document: Mapping[str, object]) -> tuple[object | None, list[Fault]]:
        """Return the structured document and no faults, or None and all of them."""
        try:
            return self._table(self.root)(document, self.root), []
        except Exception as error:  # a tree of faults, walked below
            return None, list(self._faults(error, ""))

    def _table(self, cls: type) -> Hook:
        """Return the hook that makes one table; made once per class."""
        hook = self._hooks.get(cls)
        if hook is None:
            hook = self._hooks[cls] = self._make_table(cls)
        return hook

    def _make_table(self, cls: type) -> Hook:
        attrs.resolve_types(cls)
        overrides = {
            field.name: override(struct_hook=self._field(field.type))
            for field in attrs.fields(cls)
            if field.init
        }
        # cattrs' own parameters and the overrides share one keyword space, and its types do not
        # tell them apart.
        fill: Hook = make_dict_structure_fn(
            cls,
            self._converter,
            _cattrs_forbid_extra_keys=True,
            _cattrs_detailed_validation=True,
            **overrides,  # type: ignore[arg-type]
        )

        def structure(value: Any, _: Any) -> Any:
            if not isinstance(value, Mapping):
                raise BadValueError(f"must be a table, not {kind_of(value)}")
            return fill(value, cls)

        return structure

    def _field(self, annotation: Any) -> Hook:
        """Return the hook for a field of this annotation."""
        if NoneType in get_args(annotation):
            (annotation,) = (arg for arg in get_args(annotation) if arg is not NoneType)
        if get_origin(annotation) is not Annotated:
            return self._table(annotation)
        base, mark = get_args(annotation)
        if isinstance(mark, Value):
            check = mark.check
            return lambda value, _: check(value)
        return self._array(mark, get_args(base)[0])

    def _array(self, bounds: Array, member: Any) -> Hook:
        """Return the hook for an array: every member is looked at, whatever the others are."""
        hook = self._field(member)
        what = "an array of tables ([[double brackets]])" if attrs.has(member) else "an array"

        def structure(value: Any, _: Any) -> Any:
            if not isinstance(value, list):
                raise BadValueError(f"must be {what}, not {kind_of(value)}")
            if not bounds.low <= len(value) <= bounds.high:
                raise BadValueError(f"must have {bounds.low} to {bounds.high} entries")
            made: list[object] = []
            errors: list[Exception] = []
            for index, row in enumerate(value):
                try:
                    made.append(hook(row, member))
                except Exception as error:  # collected, and told with its index
                    error.add_note(IterableValidationNote("", index, member))
                    errors.append(error)
            if errors:
                raise IterableValidationError("", errors, tuple)
            return tuple(made)

        return structure

    def _faults(self, error: Exception, path: str) -> Iterator[Fault]:
        """Walk the tree of errors and tell each leaf with the path to it."""
        if isinstance(error, (ClassValidationError, IterableValidationError)):
            named, bare = error.group_exceptions()
            for inner, note in named:
                yield from self._faults(inner, _below(path, note))
            for inner in bare:
                yield from self._faults(inner, path)
        elif isinstance(error, ForbiddenExtraKeysError):
            for index, key in enumerate(sorted(error.extra_fields)):
                known = self._known(error.cl) if index < _MAX_SUGGESTIONS else ()
                yield Fault(_joined(path, key), self._unknown(error.cl, key, known))
        elif isinstance(error, BadValueError):
            yield Fault(path, str(error))
        elif isinstance(error, KeyError):
            yield Fault(path, "is missing")
        else:
            raise error

    def _known(self, cls: type) -> list[str]:
        return [field.name for field in attrs.fields(cls) if field.init]

    def _unknown(self, cls: type, key: str, known: Sequence[str]) -> str:
        later = self._known_later.get((cls, key))
        if later is not None:
            return later
        return f"unknown key{did_you_mean(key, known)}"


def _below(path: str, note: AttributeValidationNote | IterableValidationNote) -> str:
    if isinstance(note, AttributeValidationNote):
        return _joined(path, note.name)
    return f"{path}[{note.index}]"


def _joined(path: str, key: str) -> str:
    """Return the dotted path to a key; one that is no bare key of TOML is put in quotes."""
    bare = key.isascii() and key.replace("_", "").replace("-", "").isalnum()
    shown = key if bare and len(key) <= 80 else quoted(key)
    return f"{path}.{shown}" if path else shown
