"""What is different between two configs: the names of keys, upstreams and routes, for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from omnigate.config.file_keys import ResolvedKey
from omnigate.config.schema import Config

#: Names of one kind of change that are told; of more only how many there are.
MAX_NAMES: Final = 20


@attrs.frozen
class TableChanges:
    """The rows of one table that are new, different or gone.

    :ivar more: how many names there are of each, beyond those that are told.
    """

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    more: int = 0

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)

    def rows(self) -> dict[str, Any]:
        """Return those that there are, by what happened to them."""
        found: dict[str, Any] = {
            what: list(names)
            for what, names in (
                ("added", self.added),
                ("changed", self.changed),
                ("removed", self.removed),
            )
            if names
        }
        return found | ({"more": self.more} if self.more else {})


#: What :class:`Changes` tells of: tables with rows, and tables of settings.
TABLES: Final = ("keys", "upstreams", "routes", "media_routes")
SETTINGS: Final = ("media", "outbound", "retention")


@attrs.frozen
class Changes:
    """What is different in a config.

    :ivar media: whether a setting of ``[media]`` is, beside its routes.
    """

    keys: TableChanges = TableChanges()
    upstreams: TableChanges = TableChanges()
    routes: TableChanges = TableChanges()
    media_routes: TableChanges = TableChanges()
    media: bool = False
    outbound: bool = False
    retention: bool = False

    @property
    def tables(self) -> dict[str, TableChanges]:
        """The rows that are others, by the names of their tables, as far as there are any."""
        found = {name: getattr(self, name) for name in TABLES}
        return {name: table for name, table in found.items() if table}

    @property
    def settings(self) -> list[str]:
        """The names of the tables that are others and have no rows."""
        return [name for name in SETTINGS if getattr(self, name)]

    def rows(self) -> dict[str, Any]:
        """Return what there is, as JSON tells it."""
        found: dict[str, Any] = {name: table.rows() for name, table in self.tables.items()}
        return found | dict.fromkeys(self.settings, True)


def changes_between(
    old: Config, old_keys: Sequence[ResolvedKey], new: Config, new_keys: Sequence[ResolvedKey]
) -> Changes:
    """Return what is different; a key with another secret behind the same text is, too."""
    return Changes(
        keys=_between(old_keys, new_keys, lambda key: key.config.name),
        upstreams=_between(old.upstreams, new.upstreams, lambda upstream: upstream.name),
        routes=_between(old.routes, new.routes, lambda route: route.model),
        media_routes=_between(old.media.routes, new.media.routes, lambda route: route.model),
        media=attrs.evolve(old.media, routes=()) != attrs.evolve(new.media, routes=()),
        outbound=old.outbound != new.outbound,
        retention=old.retention != new.retention,
    )


def _between(old: Iterable[Any], new: Iterable[Any], name_of: Callable[[Any], str]) -> TableChanges:
    before: Mapping[str, Any] = {name_of(row): row for row in old}
    after: Mapping[str, Any] = {name_of(row): row for row in new}
    added = [name for name in after if name not in before]
    changed = [name for name, row in after.items() if name in before and before[name] != row]
    removed = [name for name in before if name not in after]
    return TableChanges(
        added=tuple(added[:MAX_NAMES]),
        changed=tuple(changed[:MAX_NAMES]),
        removed=tuple(removed[:MAX_NAMES]),
        more=sum(max(0, len(names) - MAX_NAMES) for names in (added, changed, removed)),
    )
