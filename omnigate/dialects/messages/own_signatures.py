"""What the gateway packed for its clients, cut before a provider of their own protocol sees it.

A conversation may go on at another provider than it began at. What a translated answer held of the
first one's thinking came to the client inside the fields of the client's protocol
(:mod:`omnigate.dialects.packing`), or unsigned, and the client sends it back with everything else.
To the gateway it is of use; a provider of the client's own protocol never signed it, and refuses
the request. So from a body that passes as it is, such parts are cut: thinking blocks of Messages
whose signature is empty or begins with ``omnigate.``, and reasoning items of Responses whose
``encrypted_content`` does.

Nearly no body holds any, so one search says whether one may, and only then is the body read. The
members are found as every client spells them, without escapes and with few blanks.
"""

import re
from collections.abc import Callable, Iterable, Sequence

import msgspec

from omnigate.dialects.packing import OWN_PREFIX
from omnigate.dialects.request_body import ABSENT
from omnigate.errors import GatewayError

MAX_CUT_MESSAGES = 4096
"""How many messages may lose blocks; cutting so many takes 12 ms. Agents were seen at hundreds."""

# Printers that make JSON pretty put at most one blank before the colon, and one behind it.
_WHITE_SPACE = rb"[ \t\r\n]{0,4}+"
_PREFIX = re.escape(OWN_PREFIX.encode())
_own_signature = re.compile(
    b'"signature"' + _WHITE_SPACE + b":" + _WHITE_SPACE + b'"(?:"|' + _PREFIX + b")"
).search
_own_content = re.compile(
    b'"encrypted_content"' + _WHITE_SPACE + b":" + _WHITE_SPACE + b'"' + _PREFIX
).search

_THINKING = b'"thinking"'
_REASONING = b'"reasoning"'
_OWN = b'"' + OWN_PREFIX.encode()
_EMPTY = b'""'


class _Block(msgspec.Struct, gc=False):
    type: msgspec.Raw = ABSENT
    signature: msgspec.Raw = ABSENT


class _Message(msgspec.Struct, gc=False):
    content: list[_Block] | str | None = None


class _Messages(msgspec.Struct, gc=False):
    messages: list[_Message]


class _Item(msgspec.Struct, gc=False):
    type: msgspec.Raw = ABSENT
    encrypted_content: msgspec.Raw = ABSENT


class _Input(msgspec.Struct, gc=False):
    input: list[_Item] | str


_read_messages = msgspec.json.Decoder(_Messages).decode
_read_input = msgspec.json.Decoder(_Input).decode
_read_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode

_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def may_hold_own(kind: str, body: bytes) -> bool:
    """Return whether a body has to be read to be sure: one search, of 3 ms in 8 MiB (15 at worst).

    Whoever goes on to strip one that may reserves room first: what
    :func:`omnigate.wire.json_tree.tree_cost` tells of its tree, and three times its length. A body
    of which no tree may be made is not stripped either; that bounds the time to that of a tree.

    :param kind: of the endpoint: ``messages``, ``count_tokens`` or ``responses``.
    """
    if kind == "responses":
        return _own_content(body) is not None
    return kind in ("messages", "count_tokens") and _own_signature(body) is not None


def strip_own_signatures(body: bytes) -> bytes:
    """Return a Messages request without the thinking blocks that no provider signed.

    A message that is left without blocks goes, too. What stays is in the client's own bytes, but
    for the white space around what was cut. A body that is not of the protocol's shape stays as it
    is: its provider says what is wrong with it.

    :param body: scanned, and its memory reserved; see :func:`may_hold_own`.
    :returns: the very same object where there is nothing to cut. Offsets of a scan of it say
        nothing of a new one.
    :raises GatewayError: ``request_too_complex`` for more than :data:`MAX_CUT_MESSAGES` messages
        that would have to be cut.
    """
    if _own_signature(body) is None:
        return body
    try:
        messages = _read_messages(body).messages
        cuts = {
            index: own
            for index, message in enumerate(messages)
            if (own := _own_blocks(message.content))
        }
        del messages
        if len(cuts) > MAX_CUT_MESSAGES:
            raise GatewayError(
                "request_too_complex",
                "too many messages hold thinking that no provider signed: leave such blocks out",
                param="messages",
            )
        return _replaced(body, "messages", lambda array: _cut_messages(array, cuts), cuts)
    except _UNREADABLE:
        return body


def strip_own_reasoning(body: bytes) -> bytes:
    """Return a Responses request without the reasoning items that the gateway packed.

    All that is said of :func:`strip_own_signatures` holds here.
    """
    if _own_content(body) is None:
        return body
    try:
        items = _read_input(body).input
        if isinstance(items, str):
            return body
        own = {
            index
            for index, item in enumerate(items)
            if bytes(item.type) == _REASONING and bytes(item.encrypted_content).startswith(_OWN)
        }
        del items
        return _replaced(body, "input", lambda array: _without(_read_elements(array), own), own)
    except _UNREADABLE:
        return body


def _own_blocks(content: list[_Block] | str | None) -> set[int]:
    """Return where blocks stand that the provider has to be spared."""
    if not isinstance(content, list):
        return set()
    return {index for index, block in enumerate(content) if _is_own(block)}


def _is_own(block: _Block) -> bool:
    if bytes(block.type) != _THINKING:
        return False
    signature = bytes(block.signature)
    return signature == _EMPTY or signature.startswith(_OWN)


def _replaced(body: bytes, name: str, cut: Callable[[msgspec.Raw], bytes], cuts: object) -> bytes:
    """Put another value in the place of a member at the top, if there is anything to cut."""
    if not cuts:
        return body
    members = _read_members(body)
    members[name] = msgspec.Raw(cut(members[name]))
    return _encode(members)


def _cut_messages(array: msgspec.Raw, cuts: dict[int, set[int]]) -> bytes:
    """Return an array of messages without some blocks of some."""
    elements = _read_elements(array)
    emptied = set()
    for index, own in cuts.items():
        members = _read_members(elements[index])
        blocks = _read_elements(members["content"])
        if len(blocks) == len(own):
            emptied.add(index)
            continue
        members["content"] = msgspec.Raw(_without(blocks, own))
        elements[index] = msgspec.Raw(_encode(members))
    return _without(elements, emptied)


def _without(elements: Sequence[msgspec.Raw], gone: Iterable[int]) -> bytes:
    """Return an array of the elements that stay."""
    gone = set(gone)
    return _encode([one for index, one in enumerate(elements) if index not in gone])
