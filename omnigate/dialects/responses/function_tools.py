"""The tools of a Responses request → shapes: functions, and those that stand in a namespace.

A namespace groups functions under a name of its own, which the other protocols cannot say. Its
functions become such with the namespace in front of their names, and a call of one is told to the
client with both again.
"""

from hashlib import sha256

import attrs
import msgspec

from omnigate.dialects.request_body import (
    check_pieces,
    decode_request,
    malformed,
    missing,
    untranslatable,
)
from omnigate.dialects.shapes import Choice, Tool, ToolChoice
from omnigate.dialects.tool_ids import MAX_OPENAI_NAME_CHARS, anthropic_id, openai_name
from omnigate.text import quoted

_JOINT = "__"
_DIGEST_CHARS = 8


class _Tool(msgspec.Struct, gc=False):
    """A tool of any type; ``tools`` are those of a namespace."""

    type: str
    name: str | None = None
    description: str | None = None
    parameters: msgspec.Raw = msgspec.Raw(b"null")
    strict: bool | None = None
    tools: msgspec.Raw = msgspec.Raw(b"null")


class _Choice(msgspec.Struct, gc=False):
    """A tool choice that is an object, or a tool among those that are allowed."""

    type: str
    name: str | None = None
    namespace: str | None = None
    mode: str | None = None
    tools: msgspec.Raw = msgspec.Raw(b"null")


_tools = msgspec.json.Decoder(list[_Tool] | None)
_choice = msgspec.json.Decoder(str | _Choice | None)
_allowed = msgspec.json.Decoder(list[_Choice] | None)

_MODES = {"auto": Choice.AUTO, "none": Choice.NONE, "required": Choice.REQUIRED}


@attrs.define
class FunctionTools:
    """The functions of a request.

    :ivar namespaces: as of :class:`omnigate.dialects.shapes.Request`.
    :ivar notes: what the model is told of each namespace, the name in front.
    """

    tools: list[Tool] = attrs.Factory(list)
    namespaces: dict[str, tuple[str, str]] = attrs.Factory(dict)
    notes: list[str] = attrs.Factory(list)
    _flat: dict[tuple[str, str], str] = attrs.Factory(dict)
    _taken: set[str] = attrs.Factory(set)

    def name_of(self, namespace: str | None, name: str) -> str:
        """Return the one name of a function, also of one that is no more among the tools."""
        if not namespace:
            return name
        return self._flat.get((namespace, name)) or _joined(namespace, name)

    def add(self, tool: Tool, namespace: str | None) -> None:
        """Take in a function."""
        if namespace:
            key = (namespace, tool.name)
            flat = _joined(*key)
            if flat in self._taken:
                flat = _told_apart(flat, *key)
            self._flat[key] = tool.name = flat
            self.namespaces[flat] = key
        self._taken.add(tool.name)
        self.tools.append(tool)


def read_tools(raw: bytes | msgspec.Raw) -> FunctionTools:
    """Read the member ``tools``.

    :raises GatewayError: one is no function, or is malformed.
    """
    found = FunctionTools()
    tools = decode_request(_tools.decode, raw, "tools") or ()
    check_pieces(len(tools))
    groups: list[tuple[str, _Tool]] = []
    for index, tool in enumerate(tools):
        path = f"tools[{index}]"
        if tool.type == "namespace":
            groups.append((path, tool))
        else:
            found.add(_function(tool, path), None)
    # Behind the others, whose names are the client's own and stay.
    for path, group in groups:
        _add_namespace(found, group, path)
    return found


def _add_namespace(found: FunctionTools, group: _Tool, path: str) -> None:
    if not group.name:
        raise missing(f"{path}.name")
    inner = decode_request(_tools.decode, group.tools, f"{path}.tools") or ()
    # To join a name and shorten it takes as long as all else.
    check_pieces(len(found.tools) + 2 * len(inner))
    for index, tool in enumerate(inner):
        found.add(_function(tool, f"{path}.tools[{index}]"), group.name)
    if inner and group.description:
        begin = _joined(group.name, "")
        found.notes.append(f'Tools whose names begin with "{begin}": {group.description}')


def _function(tool: _Tool, path: str) -> Tool:
    if tool.type != "function":
        raise untranslatable(
            path,
            f"{path} is of the type {quoted(tool.type)}, which the model's provider does not know:"
            " send functions, and switch built-in tools off in the client",
        )
    if not tool.name:
        raise missing(f"{path}.name")
    schema = bytes(tool.parameters)
    if schema == b"null":
        schema = b""
    elif not schema.startswith(b"{"):
        raise malformed(f"{path}.parameters", f"{path}.parameters must be a JSON schema")
    return Tool(tool.name, tool.description, schema, tool.strict, path=path)


def _joined(namespace: str, name: str) -> str:
    joint = "" if namespace.endswith(_JOINT) else _JOINT
    return openai_name(anthropic_id(f"{namespace}{joint}{name}"))


def _told_apart(flat: str, namespace: str, name: str) -> str:
    """Return another name for a function whose usual one is taken; always the same."""
    digest = sha256(f"{namespace}\0{name}".encode("utf-8", "replace")).hexdigest()
    kept = flat[: MAX_OPENAI_NAME_CHARS - _DIGEST_CHARS - 1]
    return f"{kept}_{digest[:_DIGEST_CHARS]}"


def read_tool_choice(raw: bytes | msgspec.Raw, found: FunctionTools) -> ToolChoice | None:
    """Read the member ``tool_choice``; of allowed tools those that are not are taken out.

    :returns: ``None`` where nothing is chosen, or there is nothing to choose from.
    :raises GatewayError: it chooses what is no function, or is malformed.
    """
    choice = decode_request(_choice.decode, raw, "tool_choice")
    if choice is None:
        return None
    if isinstance(choice, str):
        return _by_mode(choice, found, "tool_choice")
    if choice.type == "allowed_tools":
        return _by_allowed(choice, found)
    return ToolChoice(Choice.NAMED, _chosen(choice, found, "tool_choice"))


def _by_mode(mode: str, found: FunctionTools, path: str) -> ToolChoice | None:
    known = _MODES.get(mode)
    if known is None:
        raise malformed(
            path, f"{path} must be auto, none, required, or an object that names a function"
        )
    if not found.tools:
        if known is Choice.REQUIRED:
            raise malformed(path, f"{path} requires a call, and there are no tools: add tools")
        return None
    return ToolChoice(known)


def _by_allowed(choice: _Choice, found: FunctionTools) -> ToolChoice | None:
    allowed = decode_request(_allowed.decode, choice.tools, "tool_choice.tools") or ()
    names = {
        _chosen(tool, found, f"tool_choice.tools[{index}]") for index, tool in enumerate(allowed)
    }
    found.tools = [tool for tool in found.tools if tool.name in names]
    return _by_mode(choice.mode or "auto", found, "tool_choice.mode")


def _chosen(choice: _Choice, found: FunctionTools, path: str) -> str:
    if choice.type != "function":
        raise untranslatable(
            "tool_choice",
            f"tool_choice names a tool of the type {quoted(choice.type)}, which the model's"
            " provider does not know: choose among functions",
        )
    if not choice.name:
        raise missing(f"{path}.name")
    return found.name_of(choice.namespace, choice.name)
