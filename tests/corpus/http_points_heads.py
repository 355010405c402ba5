"""Points of the HTTP checklist about a request's line, its target, its fields and its host."""

from omnigate.wire.head import MAX_HEAD_BYTES, MAX_HEAD_LINES
from omnigate.wire.target import MAX_PATH_BYTES, MAX_QUERY_BYTES
from tests.corpus.http_point import HOST, KEY, Point, get, line

REQUEST_LINE = (
    Point("origin form", "9112 §3.2.1", get(), (200,), kept=True),
    Point("a query", "9112 §3.2.1", line(b"GET /livez?a=b&c HTTP/1.1"), (200,), kept=True),
    Point("no version", "9112 §3", b"GET /livez\r\n\r\n", (400,)),
    Point("no version, a blank", "9112 §3", b"GET / \r\n\r\n", (400,)),
    Point("words before it", "9112 §3", line(b"Extra lineGET / HTTP/1.1"), (400,)),
    Point("two blanks", "9112 §3", line(b"GET  /livez HTTP/1.1"), (400,)),
    Point("a tab", "9112 §3", line(b"GET\t/livez HTTP/1.1"), (400,)),
    Point("a blank first", "9112 §3", line(b" GET /livez HTTP/1.1"), (400,)),
    Point("a blank last", "9112 §3", line(b"GET /livez HTTP/1.1 "), (400,)),
    Point("an empty line first", "9112 §2.2", b"\r\n" + get(), (200,), kept=True),
    Point("two empty lines first", "9112 §2.2", b"\r\n\r\n" + get(), (400,)),
    Point("bare line feeds", "9112 §2.2", get().replace(b"\r\n", b"\n"), (400,)),
    Point("a bare line feed", "9112 §2.2", get().replace(b"\r\n", b"\n", 1), (400,)),
    Point("a bare carriage return", "9112 §2.2", b"GET /livez HTTP/1.1\r" + HOST + b"\r\n", (400,)),
    Point("a TLS hello", "9112 §2.2", b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\r\n\r\n", (400,)),
    Point("small letters", "9112 §2.3", line(b"GET /livez http/1.1"), (400,)),
    Point("a version of two digits", "9112 §2.3", line(b"GET /livez HTTP/1.10"), (400,)),
    Point("half a version", "9112 §2.3", line(b"GET /livez HTTP/1"), (505,)),
    Point(
        "a higher minor version",
        "9110 §2.5",
        line(b"GET /livez HTTP/1.2"),
        (505,),
        differs="higher minor version",
    ),
    Point("HTTP/2", "9110 §15.6.6", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (505,)),
    Point("HTTP/9.9", "9110 §15.6.6", line(b"GET /livez HTTP/9.9"), (505,)),
    Point("HTTP/0.9", "9110 §15.6.6", line(b"GET /livez HTTP/0.9"), (505,)),
    Point("method in small letters", "9110 §9.1", line(b"get /livez HTTP/1.1"), (501,), kept=True),
    Point("a method nobody knows", "9110 §9.1", line(b"BREW /livez HTTP/1.1"), (501,), kept=True),
    Point(
        "a method without end",
        "9112 §3",
        line(b"G" * 100 + b" / HTTP/1.1"),
        (400,),
        differs="overlong method",
    ),
    Point("a control byte in the method", "9110 §9.1", line(b"G\x01T / HTTP/1.1"), (400,)),
)

TARGET = (
    Point(
        "absolute form",
        "9112 §3.2.2",
        line(b"GET http://gateway/livez HTTP/1.1"),
        (400,),
        differs="absolute form",
    ),
    Point("authority form", "9112 §3.2.3", line(b"CONNECT gateway:443 HTTP/1.1"), (400,)),
    Point(
        "asterisk form", "9112 §3.2.4", line(b"OPTIONS * HTTP/1.1"), (400,), differs="asterisk form"
    ),
    Point("asterisk form of a GET", "9112 §3.2.4", line(b"GET * HTTP/1.1"), (400,)),
    Point("no slash", "9112 §3.2.1", line(b"GET livez HTTP/1.1"), (400,)),
    Point("a fragment", "9112 §3.2.1", line(b"GET /livez#top HTTP/1.1"), (400,)),
    Point("a blank in it", "9112 §3.2", line(b"GET /li vez HTTP/1.1"), (400,)),
    Point("a control byte in it", "9112 §3.2", line(b"GET /livez\x7f HTTP/1.1"), (400,)),
    Point("not ASCII", "9112 §3.2", line(b"GET /livez\xc3\xa9 HTTP/1.1"), (400,)),
    Point(
        "percent-encoded path",
        "3986 §6.2.2.2",
        line(b"GET /%6civez HTTP/1.1"),
        (400,),
        differs="percent-encoding",
    ),
    Point(
        "percent-encoded query",
        "3986 §6.2.2.2",
        line(b"GET /livez?a=%62 HTTP/1.1"),
        (400,),
        differs="percent-encoding",
    ),
    Point(
        "percent-encoded model",
        "3986 §6.2.2.2",
        line(b"GET /v1/models/sm%61ll HTTP/1.1", KEY),
        (200,),
        kept=True,
    ),
    Point("dot segments", "3986 §5.2.4", line(b"GET /v1/../livez HTTP/1.1"), (400,)),
    Point(
        "a long path",
        "9112 §3",
        line(b"GET /" + b"a" * MAX_PATH_BYTES + b" HTTP/1.1"),
        (414,),
        differs="length of a target",
    ),
    Point(
        "a long query",
        "9112 §3",
        line(b"GET /?" + b"a" * (MAX_QUERY_BYTES + 1) + b" HTTP/1.1"),
        (414,),
        differs="length of a target",
    ),
    Point("an endless target", "9112 §3", b"GET /" + b"a" * MAX_HEAD_BYTES, (414,)),
)

FIELDS = (
    Point(
        "names in any case",
        "9110 §5.1",
        b"GET /livez HTTP/1.1\r\nhoSt:\tgateway\r\nempty:\r\n\r\n",
        (200,),
        kept=True,
    ),
    Point("an empty value", "9110 §5.5", get(b"X-Empty: \r\n"), (200,), kept=True),
    Point("blanks around a value", "9112 §5.1", get(b"X-A:\t b \t\r\n"), (200,), kept=True),
    Point("no blank", "9112 §5.1", get(b"X-A:b\r\n"), (200,), kept=True),
    Point(
        "bytes beyond ASCII in a value",
        "9110 §5.5",
        get(b"X-A: \xff\xc3\xa9\r\n"),
        (200,),
        kept=True,
    ),
    Point("a name twice", "9110 §5.3", get(b"X-A: b\r\nX-A: c\r\n"), (200,), kept=True),
    Point("blank before the colon", "9112 §5.1", get(b"X-A : b\r\n"), (400,)),
    Point("tab before the colon", "9112 §5.1", get(b"X-A\t: b\r\n"), (400,)),
    Point("folded", "9112 §5.2", get(b"X-A: b\r\n c\r\n"), (400,)),
    Point(
        "folded first line", "9112 §2.2", b"GET /livez HTTP/1.1\r\n Host: gateway\r\n\r\n", (400,)
    ),
    Point("no colon", "9112 §5", get(b"X-A\r\n"), (400,)),
    Point("no name", "9112 §5", get(b": b\r\n"), (400,)),
    Point("brackets in a name", "9110 §5.1", get(b"X-A[]: b\r\n"), (400,)),
    Point("a blank in a name", "9110 §5.1", get(b"X A: b\r\n"), (400,)),
    Point("a NUL", "9110 §5.5", get(b"X-A: b\x00c\r\n"), (400,)),
    Point("a bell", "9110 §5.5", get(b"X-A: b\x07\r\n"), (400,)),
    Point("a delete", "9110 §5.5", get(b"X-A: b\x7f\r\n"), (400,)),
    Point("bare CR in a value", "9110 §5.5", get(b"X-A: b\rX-B: c\r\n"), (400,)),
    Point("bare LF in a value", "9110 §5.5", get(b"X-A: b\nX-B: c\r\n"), (400,)),
    Point("CR for a line", "9112 §2.2", b"GET / HTTP/1.1\r\n" + HOST + b"\rX-A: b\r\n\r\n", (400,)),
    Point("too many lines", "9110 §5.4", get(b"X-A: b\r\n" * MAX_HEAD_LINES), (400,)),
    Point("too long", "9110 §5.4", get(b"X-A: " + b"b" * MAX_HEAD_BYTES + b"\r\n"), (400,)),
)

HOSTS = (
    Point("no host", "9112 §3.2", b"GET /livez HTTP/1.1\r\n\r\n", (400,)),
    Point(
        "no host, and a length", "9112 §3.2", b"GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", (400,)
    ),
    Point("two hosts", "9112 §3.2", get(b"Host: other\r\n"), (400,)),
    Point("the same host twice", "9112 §3.2", get(HOST), (400,)),
    Point("two hosts in HTTP/1.0", "9112 §3.2", line(b"GET /livez HTTP/1.0", HOST), (400,)),
    Point("no host in HTTP/1.0", "9112 §3.2", b"GET /livez HTTP/1.0\r\n\r\n", (200,)),
    Point("an empty host", "9112 §3.2", b"GET /livez HTTP/1.1\r\nHost:\r\n\r\n", (200,), kept=True),
    Point(
        "name and port",
        "9110 §7.2",
        b"GET /livez HTTP/1.1\r\nHost: a.example:8080\r\n\r\n",
        (200,),
        kept=True,
    ),
    Point(
        "address and port",
        "9110 §7.2",
        b"GET /livez HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n",
        (200,),
        kept=True,
    ),
    *(
        Point(
            f"host {host.decode()}",
            "9112 §3.2",
            b"GET /livez HTTP/1.1\r\nHost: " + host + b"\r\n\r\n",
            (400,),
        )
        for host in (b"a b", b"a/b", b"a@b", b"a,b", b"http://a", b"a:b", b"[::1", b'"a"')
    ),
)
