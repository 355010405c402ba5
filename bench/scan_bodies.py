"""How long the scan of a request body can hold the reactor, whatever the body holds.

Run ``python -m bench.scan_bodies``, or with ``--size 1048576``, or with names of
rows. Each row is a body of 8 MiB (or the size given) of one kind, fed to the
scanner in reads of 64 KiB as the data plane does. Shown are the longest single
``feed``, the last call ``finish``, and the sum of all calls, in milliseconds of
the processor; and one scan of such a body of 64 KiB.
The product's bar: a ``feed`` of at most 20, a ``finish`` of at most 30 for 8 MiB,
and no call above 5 for 1 MB.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import time
from collections.abc import Callable, Iterator

from omnigate.wire.json_body import ScanError
from omnigate.wire.json_members import media_parts
from omnigate.wire.json_scan import BodyScanner, scan_body

READ_BYTES = 65536
_WORDS = ["the", "of", "and", "to", "in", "is", "that", "for", "it", "with", "was", "have", "from"]
_HEAD = b'{"model":"fast","messages":[],"x":'


def _prose(rng: random.Random, size: int) -> str:
    """Write words of at least the given length."""
    return " ".join(rng.choices(_WORDS, k=size // 3))[:size]


def _chat(size: int) -> bytes:
    """A conversation of messages of about 500 bytes."""
    rng = random.Random(1)
    bulk = [_prose(rng, 400) + "\n" for _ in range(50)]
    messages = [
        {"role": "user" if turn % 2 else "assistant", "content": bulk[turn % 50]}
        for turn in range(size // 450)
    ]
    return json.dumps({"model": "fast", "messages": messages, "stream": True}).encode()


def _code(size: int) -> bytes:
    """A conversation of source text: many line ends and quotes."""
    line = '    print("value of %s", table["key"][0])\n'
    messages = [{"role": "user", "content": line * 20} for _ in range(size // 950)]
    return json.dumps({"model": "fast", "messages": messages}).encode()


def _unicode(size: int) -> bytes:
    """A conversation that is not ASCII."""
    text = "Größe und Übermaß — 日本語のテキスト。" * 10
    messages = [{"role": "user", "content": text} for _ in range(size // 530)]
    body = {"model": "fast", "messages": messages}
    return json.dumps(body, ensure_ascii=False).encode()


def _image(size: int) -> bytes:
    """One image, in base64."""
    return (
        b'{"model":"fast","messages":[{"role":"user","content":[{"type":"image_url",'
        b'"image_url":{"url":"data:image/png;base64,' + b"iVBORw0KGgo" * (size // 11) + b'"}}]}]}'
    )


def _repeat(unit: bytes, opening: bytes = b"[", closing: bytes = b"]}") -> Callable[[int], bytes]:
    """A body of one unit again and again, as the elements of an array."""

    def build(size: int) -> bytes:
        count = (size - len(_HEAD) - 10) // len(unit)
        return _HEAD + opening + (unit * count).rstrip(b",") + closing

    return build


def _numbered(size: int) -> bytes:
    """Unique tiny keys at the top."""
    keys = b",".join([b'"%x":0' % number for number in range(size // 10)])
    return b'{"model":"fast",' + keys + b"}"


def _colliding(size: int) -> bytes:
    """Keys whose hashes are equal for a weak table: multiples of a Mersenne prime."""
    keys = b",".join([b'"%d":0' % (number * ((1 << 61) - 1)) for number in range(size // 25)])
    return _HEAD + b"{" + keys + b"}}"


def _nest(size: int) -> bytes:
    """Arrays 62 deep, again and again."""
    return _repeat(b"[" * 61 + b"]" * 61 + b",")(size)


def _nest_objects(size: int) -> bytes:
    """Objects 62 deep, again and again."""
    return _repeat(b'{"":' * 61 + b"0" + b"}" * 61 + b",")(size)


def _nest_mixed(size: int) -> bytes:
    """Objects and arrays 62 deep, with a little beside each."""
    return _repeat(b'[{"a":[],"b":' * 30 + b"0" + b"}]" * 30 + b",")(size)


def _stairs(size: int) -> bytes:
    """Arrays that hold one array more at each level: nothing goes in one pass."""
    unit = b"[]"
    for _ in range(13):
        unit = b"[" + unit + b"," + unit + b"]"
    return _repeat(unit + b",")(size)


def _nested_names(size: int) -> bytes:
    """The names acted on, as keys of objects in short arrays at the top."""
    unit = b'"a":[' + b'{"model":0},' * 500 + b"0],"
    return b'{"model":"fast",' + unit * (size // len(unit)) + b'"b":0}'


def _escaped_names(size: int) -> bytes:
    """Keys spelled with escapes, nested, in short objects at the top."""
    unit = b'"a":{' + b'"\\u0061":0,' * 500 + b'"b":0},'
    return b'{"model":"fast",' + unit * (size // len(unit)) + b'"b":0}'


ROWS: dict[str, Callable[[int], bytes]] = {
    "chat": _chat,
    "code": _code,
    "not ASCII": _unicode,
    "image": _image,
    "[[[[": lambda size: _HEAD + b"[" * size,
    '{"a":{"a":': lambda size: _HEAD + b'{"a":' * (size // 5),
    "[[[[ after 8 MB": lambda size: (
        _HEAD + b'"' + b"a" * (size - 2000) + b'","y":' + b"[" * 1000 + b"]" * 1000 + b"}"
    ),
    "tiny top-level keys": _numbered,
    "[],[],": _repeat(b"[],"),
    '{"a":0},': _repeat(b'{"a":0},'),
    '{"":0},': _repeat(b'{"":0},'),
    "{},{},": _repeat(b"{},"),
    "0,0,0,": _repeat(b"0,"),
    "1.5e3,": _repeat(b"1.5e3,"),
    '"","",': _repeat(b'"",'),
    '"a","b",': _repeat(b'"a","b",'),
    "one integer": lambda size: _HEAD + b"9" * size + b"}",
    "blanks": lambda size: _HEAD + b" " * size + b"0}",
    "blanks before a colon": lambda size: b'{"messages":[],"model"' + b" " * size + b':"fast"}',
    "blanks before the model": lambda size: b'{"messages":[],"model":' + b" " * size + b'"fast"}',
    "line ends": lambda size: _HEAD + b"\n" * size + b"0}",
    "backslashes": lambda size: _HEAD + b'"' + b"\\" * (size & ~1) + b'"}',
    "escaped quotes": lambda size: _HEAD + b'"' + b'\\"' * (size // 2) + b'"}',
    "\\u0041": lambda size: _HEAD + b'"' + b"\\u0041" * (size // 6) + b'"}',
    "\\n": lambda size: _HEAD + b'"' + b"\\n" * (size // 2) + b'"}',
    "colliding keys": _colliding,
    "members of one object": _repeat(b'"a":0,', b"{", b"}}"),
    "a long key": lambda size: _HEAD + b'{"' + b"a" * size + b'":0}}',
    "a long model": lambda size: b'{"model":"' + b"a" * size + b'","messages":[]}',
    "a long escaped model": lambda size: b'{"model":"' + b"\\u0041" * (size // 6) + b'","b":[]}',
    "many models": lambda size: b"{" + b'"model":"a",' * (size // 12) + b'"b":0}',
    "a long stream_options": lambda size: (
        b'{"model":"a","stream":true,"stream_options":{'
        + b'"a":[[],[]],' * (size // 12)
        + b'"b":0}}'
    ),
    "stream_options of one list": lambda size: (
        b'{"model":"a","stream":true,"stream_options":{"a":[' + b"[]," * (size // 3) + b"0]}}"
    ),
    "nested names": _nested_names,
    "escaped names": _escaped_names,
    "62 arrays deep": _nest,
    "62 objects deep": _nest_objects,
    "62 mixed deep": _nest_mixed,
    "stairs": _stairs,
    "brackets that do not match": _repeat(b"[}"),
    "closing brackets": _repeat(b"]"),
    "high bytes": lambda size: _HEAD + b'"' + b"\xff" * size + b'"}',
    "four-byte characters": lambda size: _HEAD + b'"' + "😀".encode() * (size // 4) + b'"}',
}


def measure(body: bytes) -> tuple[float, float, float, str]:
    """Scan a body as it would arrive; seconds of the worst feed, of finish, of all; the verdict."""
    scanner = BodyScanner(len(body))
    worst = total = 0.0
    reads = [body[at : at + READ_BYTES] for at in range(0, len(body), READ_BYTES)]
    clock = time.thread_time  # what others do on the machine does not count
    for read in reads:
        began = clock()
        scanner.feed(read)
        took = clock() - began
        total += took
        worst = max(worst, took)
    verdict = "accepted"
    began = clock()
    try:
        scanner.finish(body)
    except ScanError as error:
        verdict = error.code
    last = clock() - began
    return worst, last, total + last, verdict


def rows(names: list[str]) -> Iterator[tuple[str, Callable[[int], bytes]]]:
    """Yield the rows asked for, or all."""
    for name, build in ROWS.items():
        if not names or name in names:
            yield name, build


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m bench scan", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--size", type=int, default=8 << 20, help="bytes of a body")
    parser.add_argument("names", nargs="*", help="rows to measure; all when left out")
    options = parser.parse_args()
    print(f"{'ms, best of 3':28} {'feed':>8} {'finish':>8} {'sum':>8} {'64 KiB':>8}  verdict")
    for name, build in rows(options.names):
        body = build(options.size)
        gc.collect()
        runs = [measure(body) for _ in range(3)]
        worst, last, total = (
            min(times) * 1e3 for times in zip(*[run[:3] for run in runs], strict=True)
        )
        small = build(READ_BYTES - 200)
        began = time.thread_time()
        try:
            scan_body(small)
        except ScanError:
            pass
        one_shot = (time.thread_time() - began) * 1e3
        print(f"{name:28} {worst:8.2f} {last:8.2f} {total:8.1f} {one_shot:8.2f}  {runs[0][3]}")
    body = _chat(options.size)
    began = time.thread_time()
    media_parts(body)
    print(f"{'media_parts of chat':28} {(time.thread_time() - began) * 1e3:8.2f}")


if __name__ == "__main__":
    main()
