"""Random requests of each protocol as clients may come to write them, valid or not.

Messages of any role in any order, blank texts, ids of all kinds and twice, results without calls,
members of any spelling; and the same with a few of its values changed at random. What is said in
words has a mark (:data:`WORD`), by which it is found in what is made of it.
"""

import base64
import copy
import re
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from tests.dialects.conversations import TEXTS
from tests.dialects.spellings import Body

WORD = re.compile(rb"w\d{9}")
_text_file = re.compile(rb"data:text/[a-z]+;base64,([A-Za-z0-9+/=]*)")


def words_of(data: bytes) -> set[bytes]:
    """Return the marks in a text, and in the text files it holds."""
    found = set(WORD.findall(data))
    for packed in _text_file.findall(data):
        found |= set(WORD.findall(base64.b64decode(packed)))
    return found


def _rarely(common: st.SearchStrategy[Any], rare: st.SearchStrategy[Any]) -> Any:
    """Draw what is refused once in a while, so that most requests are whole."""
    return st.integers(0, 24).flatmap(lambda number: rare if number == 24 else common)


_marks = st.integers(0, 10**9 - 1).map(lambda number: f"w{number:09d}")
_told = st.builds(lambda mark, tail: mark + tail, _marks, st.just("") | TEXTS)
_texts = _told | st.sampled_from(("", " ", "\n\u3000", "a"))
_ids = st.sampled_from(
    ("a", "b", "call_1", "c:1", "i" * 60, "ü", "\N{GRINNING FACE}", "x y", "call_gw_0")
)
_names = st.sampled_from(("f", "get_weather", "n" * 64, "n" * 65, "m" * 128))
_data = _marks.map(lambda mark: mark + "AB")
_image_types = _rarely(
    st.sampled_from(("image/png", "image/JPEG", "image/jpg")),
    st.sampled_from(("image/bmp", "text/plain")),
)
_addresses = _rarely(
    st.sampled_from(("https://h.test/a", "http://h.test")),
    st.sampled_from(("ftp://h.test/a", "a.png")),
)
_marked: st.SearchStrategy[Body] = st.sampled_from(
    (
        {},
        {"cache_control": {"type": "ephemeral"}},
        {"cache_control": None},
        {"prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}},
        {"prompt_cache_breakpoint": {"ttl": ["?"]}},
    )
)
_objects = st.dictionaries(TEXTS, st.none() | st.floats(-9, 9) | _told, max_size=2)
_schemas = st.sampled_from(
    (None, {}, {"type": "object"}, {"type": None}, {"properties": {"a": {"$ref": "#"}}})
)
_users = st.sampled_from((None, "", "u", "u" * 200))
_tiers = st.sampled_from((None, "auto", "default", "flex", "priority", "standard_only", "of 2031"))
_efforts = st.sampled_from((None, "none", "minimal", "low", "medium", "high", "xhigh", "max"))
_forms = st.sampled_from(({}, {"type": "object"}, {"type": "object", "properties": {"a": {}}}))


def _join(*parts: st.SearchStrategy[Body]) -> st.SearchStrategy[Body]:
    return st.tuples(*parts).map(
        lambda found: {name: value for part in found for name, value in part.items()}
    )


def _part(kind: str, **members: st.SearchStrategy[Any]) -> st.SearchStrategy[Body]:
    return _join(st.fixed_dictionaries({"type": st.just(kind), **members}), _marked)


def _content(parts: st.SearchStrategy[Body], most: int = 3) -> st.SearchStrategy[Any]:
    return _texts | st.lists(parts, max_size=most)


def _maybe(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[Body]:
    return st.fixed_dictionaries({}, optional=members)


def _data_urls(types: st.SearchStrategy[str], data: st.SearchStrategy[str]) -> Any:
    return st.builds(lambda kind, packed: f"data:{kind};base64,{packed}", types, data)


_text_files = _data_urls(
    st.sampled_from(("text/plain", "text/markdown")),
    _told.map(lambda text: base64.b64encode(text.encode()).decode()),
)
_pdf_files = _data_urls(st.sampled_from(("application/pdf", "APPLICATION/PDF")), _data)
_pictures = _addresses | _data_urls(_image_types, _data)
_titles = st.sampled_from((None, "", "a.pdf", "a.txt"))

# -- Chat

_chat_texts = _part("text", text=_texts)
_chat_pictures = st.one_of(
    _part("image_url", image_url=st.fixed_dictionaries({"url": _pictures})),
    _part("image_url", image_url=_pictures),
    _part(
        "file",
        file=st.fixed_dictionaries({"file_data": _text_files | _pdf_files, "filename": _titles}),
    ),
    _chat_texts,
)
_chat_shown = _rarely(
    st.one_of(_chat_texts, _chat_pictures),
    _part("input_audio", input_audio=st.just({"data": "", "format": "wav"})),
)
_calls = st.fixed_dictionaries(
    {
        "id": _rarely(_ids, st.just("")),
        "type": st.just("function"),
        "function": st.fixed_dictionaries(
            {
                "name": _names,
                "arguments": st.sampled_from(("", "{}", '{"a":1e3}', "[1]", '{"a'))
                | _told
                | _told.map(lambda text: '{"a":"' + text[:10] + '"}'),
            }
        ),
    }
)
_blocks = st.sampled_from(
    (
        {"type": "thinking", "thinking": "t", "signature": "s"},
        {"type": "thinking", "thinking": "t", "signature": "omnigate.r1:x"},
        {"type": "thinking", "thinking": "t"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "redacted_thinking"},
    )
)
_system_texts = _content(_chat_texts)
_chat_users = st.fixed_dictionaries({"role": st.just("user"), "content": _content(_chat_shown)})
_chat_answers = st.fixed_dictionaries(
    {
        "role": st.just("assistant"),
        "content": st.none() | _content(_chat_texts | _part("refusal", refusal=_texts)),
    },
    optional={
        "refusal": st.none() | _texts,
        "tool_calls": _rarely(st.just([]) | st.none(), st.lists(_calls, max_size=2)),
        "thinking_blocks": st.lists(_blocks, max_size=2),
    },
)
_chat_messages = _rarely(
    st.one_of(
        st.fixed_dictionaries(
            {"role": st.sampled_from(("system", "developer")), "content": _system_texts}
        ),
        _chat_users,
        _chat_users,
        _chat_answers,
    ),
    st.fixed_dictionaries(
        {
            "role": st.just("tool"),
            "content": st.none() | _content(_chat_shown),
            "tool_call_id": _rarely(_ids, st.just("")),
        }
    ),
)


@st.composite
def _answered_chat(draw: st.DrawFn) -> list[Body]:
    """Calls with their results."""
    calls = draw(st.lists(_calls, min_size=1, max_size=3))
    content = _content(_chat_shown)
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": draw(content)} for call in calls
    ]
    return [
        {"role": "assistant", "content": draw(st.none() | _texts), "tool_calls": calls},
        *results,
    ]


def _shuffled(one: Any, several: Any) -> st.SearchStrategy[list[Body]]:
    """Draw messages and groups of them; most conversations end with the user."""
    groups = st.lists(one.map(lambda message: [message]) | several, max_size=5)
    last = _told.map(lambda text: [{"role": "user", "content": text}])
    return st.tuples(groups, _rarely(last, st.just([]))).map(
        lambda found: [message for group in (*found[0], found[1]) for message in group]
    )


_chat_tools = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.just("function"),
            "function": st.fixed_dictionaries(
                {"name": _names},
                optional={
                    "description": st.none() | _texts,
                    "parameters": _schemas,
                    "strict": st.sampled_from((None, True, False)),
                },
            ),
        }
    ),
    max_size=2,
)
_chat_choices = st.sampled_from((None, "auto", "none")) | _rarely(
    st.none(), st.sampled_from(("required", {"type": "function", "function": {"name": "f"}}))
)
_limits = st.sampled_from((None, 1, 16, 5000, 10**25))
_fractions = st.sampled_from((None, 0, 0.5, 1, 2))
_stops = st.none() | _texts | st.lists(_texts, max_size=5)

CHAT = _join(
    st.fixed_dictionaries(
        {"model": st.just("m"), "messages": _shuffled(_chat_messages, _answered_chat())}
    ),
    _maybe(
        tools=_chat_tools,
        tool_choice=_chat_choices,
        parallel_tool_calls=st.none() | st.booleans(),
        max_tokens=_limits,
        max_completion_tokens=_limits,
        temperature=_fractions,
        top_p=_fractions,
        stop=_stops.map(lambda stop: _unmarked(stop)),
        stream=st.none() | st.booleans(),
        reasoning_effort=_efforts,
        thinking=st.sampled_from((None, {"type": "disabled"}, {"type": "adaptive"})),
        user=_users,
        safety_identifier=_users,
        service_tier=_tiers,
        n=_rarely(st.sampled_from((None, 1)), st.just(2)),
        logit_bias=_rarely(st.sampled_from((None, {})), st.just({"1": 2})),
        response_format=st.sampled_from((None, {"type": "text"}, {"type": "json_object"}))
        | _forms.map(
            lambda form: {"type": "json_schema", "json_schema": {"name": "n", "schema": form}}
        ),
    ),
)


def _unmarked(value: Any) -> Any:
    """Return a value without marks: it is no part of the conversation."""
    if isinstance(value, str):
        return value.replace("w", "v")
    return [_unmarked(one) for one in value] if isinstance(value, list) else value


# -- Messages

_block_texts = _part("text", text=_texts)
_sources = _rarely(
    st.fixed_dictionaries({"type": st.just("url"), "url": _addresses})
    | st.fixed_dictionaries({"type": st.just("base64"), "media_type": _image_types, "data": _data}),
    st.just({"type": "file", "file_id": "f"}),
)
_papers = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "media_type": st.none(), "data": _told}),
    st.fixed_dictionaries(
        {"type": st.just("base64"), "media_type": st.just("application/pdf"), "data": _data}
    ),
    st.fixed_dictionaries({"type": st.just("url"), "url": _addresses}),
    st.fixed_dictionaries({"type": st.just("content"), "content": _content(_block_texts, 2)}),
)
_block_known = st.one_of(
    _block_texts,
    _part("image", source=_sources),
    _part("document", source=_papers, title=_titles),
    _part(
        "search_result",
        source=st.just("https://h"),
        title=_told,
        content=st.lists(_block_texts, max_size=2),
    ),
)
_block_shown = _rarely(_block_known, _part("container_upload", file_id=st.just("f")))
_uses = _part("tool_use", id=_ids, name=_names, input=st.none() | _objects)
_results = _join(
    _part("tool_result", tool_use_id=_ids, content=st.none() | _content(_block_shown)),
    _maybe(is_error=st.none() | st.booleans()),
)
_users_blocks = _rarely(_block_shown, _results)
_own_blocks = st.one_of(
    _rarely(_block_texts, _uses),
    _blocks,
    st.just({"type": "thinking", "thinking": "t", "signature": "omnigate.r1:eyJpZCI6ICJhIn0="}),
    st.just({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
)
_messages = st.one_of(
    st.fixed_dictionaries({"role": st.just("system"), "content": _content(_block_texts)}),
    st.fixed_dictionaries({"role": st.just("user"), "content": _content(_users_blocks)}),
    st.fixed_dictionaries({"role": st.just("assistant"), "content": _content(_own_blocks)}),
)


@st.composite
def _answered_messages(draw: st.DrawFn) -> list[Body]:
    calls = draw(st.lists(_uses, min_size=1, max_size=3))
    blocks = [draw(_results) | {"tool_use_id": call["id"]} for call in calls]
    content = blocks + draw(st.lists(_block_shown, max_size=1))
    said = draw(st.lists(_block_texts, max_size=1))
    return [
        {"role": "assistant", "content": [*said, *calls]},
        {"role": "user", "content": draw(st.permutations(content))},
    ]


MESSAGES = _join(
    st.fixed_dictionaries(
        {
            "model": st.just("m"),
            "max_tokens": st.sampled_from((1, 16, 5000, 10**25)),
            "messages": _shuffled(_messages, _answered_messages()),
        }
    ),
    _maybe(
        system=st.none() | _content(_block_texts),
        tools=st.lists(
            st.fixed_dictionaries(
                {"name": _names},
                optional={
                    "type": _rarely(st.sampled_from((None, "custom")), st.just("bash_20250124")),
                    "description": st.none() | _texts,
                    "input_schema": _schemas,
                    "strict": st.none() | st.booleans(),
                },
            ),
            max_size=2,
        ),
        tool_choice=st.sampled_from(
            (
                None,
                {"type": "auto", "disable_parallel_tool_use": True},
                {"type": "none"},
                {"type": "any"},
                {"type": "tool", "name": "m" * 128},
            )
        ),
        temperature=_fractions,
        top_p=_fractions,
        top_k=_limits,
        stop_sequences=st.lists(_texts, max_size=5).map(_unmarked),
        stream=st.none() | st.booleans(),
        thinking=st.sampled_from(
            (
                None,
                {"type": "disabled"},
                {"type": "adaptive", "display": "omitted"},
                {"type": "enabled", "budget_tokens": 5000},
                {"type": "enabled", "budget_tokens": -1},
            )
        ),
        output_config=_maybe(
            effort=_efforts,
            format=_forms.map(lambda form: {"type": "json_schema", "schema": form}),
        ),
        metadata=st.fixed_dictionaries({"user_id": _users}),
        service_tier=_tiers,
    ),
)

# -- Responses

_item_texts = _part("input_text", text=_texts) | _part("output_text", text=_texts)
_item_known = st.one_of(
    _item_texts,
    _part("input_image", image_url=_pictures, detail=st.sampled_from((None, "auto", "low"))),
    _part("input_file", file_data=_text_files | _pdf_files, filename=_titles),
    _part("input_file", file_url=_addresses),
)
_item_shown = _rarely(_item_known, _part("input_file", file_id=st.just("f")))
_item_calls = st.fixed_dictionaries(
    {
        "type": st.just("function_call"),
        "call_id": _ids,
        "name": _names,
        "arguments": st.sampled_from(("", "{}", "[")) | _told,
    },
    optional={"namespace": st.sampled_from((None, "ns", "mcp__x__"))},
)
_outputs = st.fixed_dictionaries(
    {
        "type": st.just("function_call_output"),
        "call_id": _ids,
        "output": _content(_item_shown),
    }
)
_reasoning = st.sampled_from(
    (
        {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "foreign"},
        {
            "type": "reasoning",
            "summary": [],
            "encrypted_content": "omnigate.v1:"
            + base64.b64encode(b'{"type":"thinking","thinking":"t","signature":"s"}').decode(),
        },
    )
)
_roles = st.sampled_from(("user", "assistant", "system", "developer"))
_items = _rarely(
    st.one_of(
        st.fixed_dictionaries(
            {"role": _roles, "content": _content(_item_texts)},
            optional={"type": st.sampled_from((None, "message"))},
        ),
        st.fixed_dictionaries({"role": st.just("user"), "content": _content(_item_shown)}),
        _reasoning,
    ),
    _item_calls | _outputs | st.just({"type": "web_search_call", "id": "w"}),
)


@st.composite
def _answered_items(draw: st.DrawFn) -> list[Body]:
    calls = draw(st.lists(_item_calls, min_size=1, max_size=3))
    results = [draw(_outputs) | {"call_id": call["call_id"]} for call in calls]
    return [*calls, *draw(st.permutations(results))]


_functions = st.lists(
    st.fixed_dictionaries(
        {"type": st.just("function"), "name": _names},
        optional={
            "description": st.none() | _texts,
            "parameters": _schemas,
            "strict": st.none() | st.booleans(),
        },
    ),
    max_size=2,
)
RESPONSES = _join(
    st.fixed_dictionaries(
        {"model": st.just("m"), "input": _texts | _shuffled(_items, _answered_items())}
    ),
    _maybe(
        instructions=st.none() | _texts,
        tools=_functions
        | _functions.map(
            lambda inner: [{"type": "namespace", "name": "ns", "description": "", "tools": inner}]
        ),
        tool_choice=st.sampled_from((None, "auto", "none", {"type": "function", "name": "f"})),
        parallel_tool_calls=st.none() | st.booleans(),
        max_output_tokens=_limits,
        temperature=_fractions,
        top_p=_fractions,
        stream=st.none() | st.booleans(),
        reasoning=_maybe(effort=_efforts, summary=st.sampled_from((None, "auto", "detailed"))),
        text=_maybe(
            format=st.sampled_from(({"type": "text"}, {"type": "json_object"}))
            | _forms.map(lambda form: {"type": "json_schema", "name": "n", "schema": form})
        ),
        user=_users,
        safety_identifier=_users,
        service_tier=_tiers,
        store=st.none() | st.booleans(),
        previous_response_id=_rarely(st.sampled_from((None, "")), st.just("resp_1")),
    ),
)

ODD_BODIES = {"chat": CHAT, "messages": MESSAGES, "responses": RESPONSES}

# -- changed at random

_junk: st.SearchStrategy[Any] = st.sampled_from(
    (None, True, 0, -1, 1.5, 10**30, "", " ", "x", "function", "\ud800", [], {}, [[]], [{}], [None])
) | st.sampled_from(({"type": "text", "text": "x"}, {"type": "of_2031"}, {"role": "user"}, "auto"))
_GONE = object()


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return every place in a tree, as its container and its key there."""
    found: list[tuple[Any, Any]] = []
    keys: Sequence[Any] = ()
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list):
        keys = range(len(value))
    for key in keys:
        found.append((value, key))
        found += _places(value[key])
    return found


@st.composite
def broken(draw: st.DrawFn, protocol: str) -> Body:
    """Draw a body in which one to three values are others, or gone."""
    body: Body = copy.deepcopy(draw(ODD_BODIES[protocol]))
    for _ in range(draw(st.integers(1, 3))):
        places = _places(body)
        holder, key = places[draw(st.integers(0, len(places) - 1))]
        junk = draw(_junk | st.just(_GONE))
        if junk is not _GONE:
            holder[key] = copy.deepcopy(junk)
        elif isinstance(holder, dict):
            del holder[key]
        if not body:
            break
    return body
