"""Points of the HTTP checklist about framing, connections, expectations and methods."""

from tests.corpus.http_point import BODY, KEY, SIZE, SIZED, Point, get, length, line, post

CHUNKED_BODY = b"5\r\nhello\r\n0\r\n\r\n"


def coding(value: bytes, *lines: bytes, version: bytes = b"1.1") -> bytes:
    """A chat request with this ``Transfer-Encoding``."""
    lines = (b"Transfer-Encoding: " + value + b"\r\n", *lines)
    return post(*lines, body=CHUNKED_BODY, version=version)


LENGTHS = (
    Point("a length", "9112 §6.2", length(SIZE), (200,), kept=True),
    Point("blanks around it", "9112 §5.1", length(b"\t" + SIZE + b" "), (200,), kept=True),
    Point("a length of 0", "9112 §6.2", length(b"0", b""), (400,), kept=True),
    Point("no length", "9112 §6.3", post(), (411,)),
    Point("leading zeros", "9110 §8.6", length(b"0" + SIZE), (400,), differs="leading zeros"),
    *(
        Point(f"length {value.decode('latin-1')!r}", "9112 §6.3", length(value), (400,))
        for value in (
            b"",
            b"+5",
            b"-5",
            b"-1234567890123456789012345",
            b"5.0",
            b"5e0",
            b"0x5",
            b"5 5",
            b"5,5",
            b"5, 5",
            b"5;",
            b"abc",
            b"1_0",
            b"\xd9\xa5",
            b"9" * 16,
            b"9" * 20,
            b"9" * 5000,
        )
    ),
    Point("a length that is too large", "9110 §15.5.14", length(b"9" * 15), (413,)),
    Point("the same length twice", "9112 §6.3", post(SIZED * 2), (400,)),
    Point("two lengths", "9112 §6.3", post(SIZED, b"Content-Length: 5\r\n"), (400,)),
    Point("more than the length", "9112 §6.3", length(SIZE, BODY + b"more\r\n\r\n"), (200, 400)),
    Point("length 0 of a GET", "9110 §8.6", get(b"Content-Length: 0\r\n"), (200,), kept=True),
    *(
        Point(
            f"a body of {method.decode()}",
            "9110 §9.3",
            line(method + b" /livez HTTP/1.1", b"Content-Length: 5\r\n") + b"hello",
            (400,),
            differs="bodies where no method has one",
            methods=(method.decode(),),
        )
        for method in (b"GET", b"HEAD", b"DELETE", b"OPTIONS", b"TRACE", b"BREW")
    ),
)

CODINGS = (
    Point("chunked", "9112 §7.1", coding(b"chunked"), (411,), differs="chunked bodies"),
    Point("chunked in capitals", "9112 §7", coding(b"CHUNKED"), (411,), differs="chunked bodies"),
    Point("chunked in HTTP/1.0", "9112 §6.1", coding(b"chunked", version=b"1.0"), (411,)),
    Point(
        "chunk extensions and trailers",
        "9112 §7.1",
        post(b"Transfer-Encoding: chunked\r\n", body=b"5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n"),
        (411,),
        differs="chunked bodies",
    ),
    Point(
        "chunked and a length", "9112 §6.3", coding(b"chunked", b"Content-Length: 5\r\n"), (400,)
    ),
    Point(
        "a length and chunked",
        "9112 §6.3",
        post(b"Content-Length: 5\r\n", b"transfer-encoding:chunked\r\n", body=CHUNKED_BODY),
        (400,),
    ),
    Point(
        "chunked on a GET",
        "9112 §6.3",
        get(b"Transfer-Encoding: chunked\r\n") + CHUNKED_BODY,
        (400,),
    ),
    *(
        Point(
            f"coding {value.decode('latin-1')!r}",
            "9112 §6.1",
            coding(value),
            (400,),
            differs="other transfer codings",
        )
        for value in (
            b"identity",
            b"gzip",
            b"gzip, chunked",
            b"xchunked",
            b"chunkedx",
            b"chunked;a=b",
        )
    ),
    *(
        Point(f"coding {value.decode('latin-1')!r}", "9112 §6.3", coding(value), (400,))
        for value in (
            b"chunked, chunked",
            b"chunked, identity",
            b"chunked, gzip",
            b"",
            b",chunked",
            b"\x0bchunked",
            b'"chunked"',
        )
    ),
    Point(
        "chunked twice", "9112 §6.1", coding(b"chunked", b"Transfer-Encoding: chunked\r\n"), (400,)
    ),
    Point(
        "folded coding",
        "9112 §5.2",
        post(b"Transfer-Encoding:\r\n chunked\r\n", body=CHUNKED_BODY),
        (400,),
    ),
    Point(
        "blank before the colon of a coding",
        "9112 §5.1",
        post(b"Transfer-Encoding : chunked\r\n", SIZED),
        (400,),
    ),
)

CONNECTION = (
    Point("asked to close", "9112 §9.6", get(b"Connection: close\r\n"), (200,)),
    Point("asked in capitals", "9110 §7.6.1", get(b"CONNECTION: CLOSE\r\n"), (200,)),
    Point("asked in a list", "9110 §7.6.1", get(b"Connection: x , Close,y\r\n"), (200,)),
    Point(
        "asked on a second line",
        "9110 §7.6.1",
        get(b"Connection: x\r\nConnection: close\r\n"),
        (200,),
    ),
    Point("asked to stay", "9112 §9.3", get(b"Connection: keep-alive\r\n"), (200,), kept=True),
    Point("some other option", "9110 §7.6.1", get(b"Connection: closer\r\n"), (200,), kept=True),
    Point("HTTP/1.0", "9112 §9.3", line(b"GET /livez HTTP/1.0"), (200,)),
    Point(
        "HTTP/1.0 that would stay",
        "9112 §9.3",
        line(b"GET /livez HTTP/1.0", b"Connection: keep-alive\r\n"),
        (200,),
        differs="HTTP/1.0 connections",
    ),
    Point(
        "three at once",
        "9112 §9.3.2",
        get() + length(SIZE) + line(b"GET /nothing HTTP/1.1", KEY),
        (200, 200, 404),
        kept=True,
    ),
    Point(
        "a body that is not read",
        "9112 §9.3",
        line(b"POST /v1/messages HTTP/1.1", SIZED) + BODY,
        (401,),
    ),
    Point(
        "a body for nowhere",
        "9112 §9.3",
        line(b"POST /nothing HTTP/1.1", KEY, SIZED) + BODY,
        (404,),
    ),
    Point(
        "h1spec's POST",
        "9110 §15.5.6",
        line(b"POST / HTTP/1.1", b"Content-Length: 5\r\n") + b"hello",
        (405,),
        differs="`POST /`",
    ),
    Point(
        "an upgrade that is not followed",
        "9110 §7.8",
        get(
            b"Connection: Upgrade, HTTP2-Settings\r\n",
            b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
        ),
        (200,),
        kept=True,
    ),
    Point(
        "an upgrade that is refused",
        "9110 §15.5.22",
        line(b"GET /v1/responses HTTP/1.1", b"Connection: Upgrade\r\nUpgrade: websocket\r\n"),
        (426,),
        kept=True,
    ),
    Point(
        "an upgrade in HTTP/1.0",
        "9110 §7.8",
        line(b"GET /v1/responses HTTP/1.0", KEY, b"Connection: Upgrade\r\nUpgrade: websocket\r\n"),
        (405,),
    ),
)

EXPECT = (
    Point(
        "where no body comes", "9110 §10.1.1", get(b"Expect: 100-continue\r\n"), (200,), kept=True
    ),
    Point(
        "where the body comes along",
        "9110 §10.1.1",
        post(SIZED, b"Expect: 100-continue\r\n"),
        (200,),
        kept=True,
    ),
    Point(
        "in HTTP/1.0",
        "9110 §10.1.1",
        post(SIZED, b"Expect: 100-continue\r\n", version=b"1.0"),
        (200,),
    ),
    Point("something else", "9110 §10.1.1", post(SIZED, b"Expect: the-moon\r\n"), (417,)),
    Point("something more", "9110 §10.1.1", post(SIZED, b"Expect: 100-continue, gzip\r\n"), (417,)),
    Point("twice", "9110 §10.1.1", post(SIZED, b"Expect: 100-continue\r\n" * 2), (400,)),
)

METHODS = (
    *(
        Point(
            f"HEAD {path.decode()}",
            "9110 §9.3.2",
            line(b"HEAD " + path + b" HTTP/1.1", KEY),
            (status,),
            kept=True,
            methods=("HEAD",),
        )
        for path, status in (
            (b"/", 200),
            (b"/livez", 200),
            (b"/v1/models", 200),
            (b"/v1/models/none", 404),
            (b"/none", 404),
            (b"/v1/messages", 405),
        )
    ),
    Point(
        "HEAD with a head that is refused",
        "9110 §9.3.2",
        b"HEAD /livez HTTP/1.1\r\n\r\n",
        (400,),
        methods=("HEAD",),
    ),
    Point(
        "HEAD with a target that is refused",
        "9110 §9.3.2",
        line(b"HEAD //livez HTTP/1.1"),
        (404,),
        methods=("HEAD",),
    ),
    Point(
        "HEAD that is not authenticated",
        "9110 §9.3.2",
        line(b"HEAD /v1/models HTTP/1.1"),
        (401,),
        kept=True,
        methods=("HEAD",),
    ),
    *(
        Point(
            f"{method.decode()} {path.decode()}",
            "9110 §15.5.6",
            line(method + b" " + path + b" HTTP/1.1", KEY),
            (405,),
            kept=True,
        )
        for method in (b"OPTIONS", b"TRACE", b"DELETE", b"CONNECT")
        for path in (b"/", b"/livez", b"/v1/models", b"/v1/messages")
    ),
    Point(
        "GET where POST is",
        "9110 §15.5.6",
        line(b"GET /v1/embeddings HTTP/1.1", KEY),
        (405,),
        kept=True,
    ),
    Point("PUT without a length", "9112 §6.3", line(b"PUT /livez HTTP/1.1"), (411,)),
    Point(
        "PUT",
        "9110 §15.5.6",
        line(b"PUT /livez HTTP/1.1", b"Content-Length: 0\r\n"),
        (405,),
        kept=True,
    ),
    Point("no key", "9110 §11.6.1", line(b"GET /v1/models HTTP/1.1"), (401,), kept=True),
    Point(
        "a wrong key",
        "9110 §11.6.1",
        line(b"GET /v1/models HTTP/1.1", b"Authorization: Bearer no\r\n"),
        (401,),
        kept=True,
    ),
    Point(
        "another scheme",
        "9110 §11.6.1",
        line(b"GET /v1/models HTTP/1.1", b"Authorization: Basic YTpi\r\n"),
        (401,),
        kept=True,
    ),
    Point(
        "the scheme in capitals",
        "9110 §11.1",
        line(b"GET /v1/models HTTP/1.1", KEY.replace(b"Bearer", b"BEARER")),
        (200,),
        kept=True,
    ),
    Point("nothing there", "9110 §15.5.5", line(b"GET /none HTTP/1.1", KEY), (404,), kept=True),
    Point(
        "conditions and ranges",
        "9110 §13.2",
        get(b'If-None-Match: "a"\r\nRange: bytes=0-1\r\nIf-Match: "a"\r\n'),
        (200,),
        kept=True,
    ),
    Point(
        "wishes that cannot be met",
        "9110 §12.4",
        get(b"Accept: text/html\r\nAccept-Encoding: br\r\n"),
        (200,),
        kept=True,
    ),
    Point("TE", "9112 §7.4", get(b"TE: trailers\r\nConnection: TE\r\n"), (200,), kept=True),
)
