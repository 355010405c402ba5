"""Who is let in, with which cookie, from where; and forms of other sites."""

from __future__ import annotations

import json
from typing import NoReturn
from urllib.parse import urlsplit

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.address import UNIXAddress
from twisted.internet.interfaces import ISSLTransport
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import directlyProvides

from omnigate.client_address import TrustedProxies
from omnigate.control.auth import PEOPLE, WRONG_IN_WINDOW
from omnigate.control.dashboard.door import cookie_name
from omnigate.control.dashboard.front import MAX_FORM_BYTES, is_readable, own_path
from omnigate.control.dashboard.pages import HEADERS
from omnigate.control.routes import WRITE, audience_of
from omnigate.control.sessions import SessionKeys
from tests.control.conversation import ADMIN_TOKEN, Headers, Reply, read_reply, request_bytes
from tests.control.dashboard.visitor import Page, Visitor
from tests.control.plane import START, Plane

HOUR = 3600

PLAIN_COOKIE = cookie_name(SessionKeys(ADMIN_TOKEN), is_secure=False)
SECURE_COOKIE = cookie_name(SessionKeys(ADMIN_TOKEN), is_secure=True)


def made_key(plane: Plane, scope: str = "full", **members: object) -> str:
    """Make an admin key named ``ann``; return its secret."""
    body = json.dumps({"name": "ann", "scope": scope, **members}).encode()
    reply = plane.admin("POST", "/admin/admin-keys", body)
    if reply.status != 201:
        raise AssertionError(reply.body)
    secret: str = reply.json()["secret"]
    return secret


def broken(*args: object, **values: object) -> NoReturn:
    """Stand in for templates that are not what they should be."""
    raise ZeroDivisionError


class DoorTestCase(SynchronousTestCase):
    """A control plane and somebody with a browser."""

    def setUp(self) -> None:
        self.plane = Plane(self.mktemp())
        self.visitor = Visitor(self.plane.talk)

    def assert_signed_out(self, reply: Reply | None = None) -> None:
        """Check that whoever asks for a page is led to the form."""
        reply = reply or self.visitor.get("/")
        self.assertEqual((reply.status, reply.headers.get("location")), (303, "/sign-in"))


class CookieTests(DoorTestCase):
    """The cookie of a session."""

    def test_how_it_is_written(self) -> None:
        """For this browser and no script, for no other site's forms, for a day at most."""
        reply = self.visitor.sign_in()
        name, _, rest = reply.headers["set-cookie"].partition("=")
        self.assertEqual(name, PLAIN_COOKIE)
        self.assertEqual(
            rest.split("; ")[1:], ["Path=/", "Max-Age=86400", "HttpOnly", "SameSite=Lax"]
        )

    def test_an_hour_and_a_day(self) -> None:
        """An hour without a request ends a session; a day does so whatever is done."""
        self.visitor.sign_in()
        self.plane.clock.advance(HOUR - 1)
        self.visitor.page("/")
        self.plane.clock.advance(HOUR)
        self.assert_signed_out()
        self.visitor.sign_in()
        began = self.plane.clock.seconds()
        while self.plane.clock.seconds() < began + 24 * HOUR - 1800:
            self.visitor.page("/")
            self.plane.clock.advance(1800)
        self.plane.clock.advance(1799)
        self.visitor.page("/")
        self.plane.clock.advance(1)
        self.assert_signed_out()

    def test_it_is_renewed_by_pages_only(self) -> None:
        """Once a minute; not by live parts, nor by what was refused."""
        self.visitor.sign_in()
        self.assertNotIn("set-cookie", self.visitor.get("/").headers)
        self.plane.clock.advance(60)
        self.assertNotIn("set-cookie", self.visitor.get("/live/nothing").headers)
        self.assertNotIn("set-cookie", self.visitor.get("/keys/a/b/c").headers)
        self.assertIn("set-cookie", self.visitor.get("/").headers)
        self.assertNotIn("set-cookie", self.visitor.get("/").headers)

    def test_foreign_and_doubled_ones(self) -> None:
        """Cookies of others are passed over; of two of our name neither counts."""
        self.visitor.sign_in()
        own = self.visitor.cookies[PLAIN_COOKIE]
        for cookies, is_in in (
            (f"a=b; {PLAIN_COOKIE}={own}; c", True),
            (f"x{PLAIN_COOKIE}=1; {PLAIN_COOKIE}={own}", True),
            (f"{PLAIN_COOKIE}={own}; {PLAIN_COOKIE}={own}", False),
            (f"{PLAIN_COOKIE}=; {PLAIN_COOKIE}={own}", False),
            (f'{PLAIN_COOKIE}="{own}"', False),
            (f"{SECURE_COOKIE}={own}", False),
            (f"{PLAIN_COOKIE}={own[:-1]}", False),
            (f"{PLAIN_COOKIE}", False),
            ("", False),
        ):
            reply = self.plane.talk.ask("GET", "/", ((b"cookie", cookies.encode()),))
            self.assertEqual(reply.status, 200 if is_in else 303, cookies)
        two: Headers = tuple((b"cookie", f"{PLAIN_COOKIE}={own}".encode()) for _ in range(2))
        self.assert_signed_out(self.plane.talk.ask("GET", "/", two))

    def test_another_admin_token_ends_it(self) -> None:
        """A cookie that was sealed with another one opens nothing."""
        keys = SessionKeys("another-token-0123456789")
        cookie = keys.seal(keys.begin("", START * 1000))
        header = ((b"cookie", f"{PLAIN_COOKIE}={cookie}".encode()),)
        self.assert_signed_out(self.plane.talk.ask("GET", "/", header))

    def test_several_planes_at_one_address(self) -> None:
        """Cookies do not know ports, so each plane has a name for its own."""
        other = SessionKeys("another-token-0123456789")
        self.assertRegex(PLAIN_COOKIE, "^omnigate-[0-9a-f]{8}$")
        self.assertEqual(SECURE_COOKIE, f"__Host-{PLAIN_COOKIE}")
        self.visitor.sign_in()
        self.visitor.cookies[cookie_name(other, is_secure=False)] = other.seal(
            other.begin("", START * 1000)
        )
        self.visitor.page("/")

    def test_signing_out_ends_it_everywhere(self) -> None:
        """A copy of the cookie opens nothing either; other sessions go on."""
        self.visitor.sign_in()
        self.visitor.page("/")
        kept = dict(self.visitor.cookies)
        other = Visitor(self.plane.talk)
        other.sign_in()
        reply = self.visitor.send("/sign-out", {})
        self.assertIn("Max-Age=0", reply.headers["set-cookie"])
        self.assertEqual(self.visitor.cookies, {})
        self.visitor.cookies = kept
        self.assert_signed_out()
        other.page("/")

    @given(st.binary(max_size=300))
    def test_any_cookie(self, text: bytes) -> None:
        """It opens nothing, whatever stands there, and nothing breaks."""
        text = bytes(byte for byte in text if byte not in b"\r\n\0")
        for cookie in (text, PLAIN_COOKIE.encode() + b"=" + text):
            reply = self.plane.talk.ask("GET", "/", ((b"cookie", cookie),))
            self.assertIn(reply.status, (303, 400), cookie)


class AdminKeyTests(DoorTestCase):
    """Sessions of admin keys, which end with what their key may do."""

    def sign_in(self, secret: str) -> None:
        self.assertEqual(self.visitor.sign_in(secret).status, 303)
        self.assertIn(
            "admin-key:ann", self.visitor.page("/").one("span", title="Signed in as").text
        )

    def change(self, **members: object) -> None:
        body = json.dumps(members).encode()
        self.assertEqual(self.plane.admin("PATCH", "/admin/admin-keys/ann", body).status, 200)

    def test_it_is_disabled(self) -> None:
        """At once, and back at once."""
        self.sign_in(made_key(self.plane))
        self.change(disabled=True)
        self.assert_signed_out()
        self.assertEqual(self.visitor.get("/live/overview").status, 401)
        self.change(disabled=False)
        self.visitor.page("/")

    def test_it_expires(self) -> None:
        """At its second."""
        self.sign_in(made_key(self.plane, expires_at="2026-11-29T20:10:00Z"))
        self.plane.clock.advance(599)
        self.visitor.page("/")
        self.plane.clock.advance(1)
        self.assert_signed_out()

    def test_it_is_deleted(self) -> None:
        """At once."""
        self.sign_in(made_key(self.plane))
        self.assertEqual(self.plane.admin("DELETE", "/admin/admin-keys/ann").status, 200)
        self.assert_signed_out()

    def test_it_is_rotated(self) -> None:
        """With the grace of the secret that was shown; without one at once."""
        for grace_s in (600, 0):
            self.sign_in(made_key(self.plane))
            body = b'{"grace_s":%d}' % grace_s
            self.plane.admin("POST", "/admin/admin-keys/ann/rotate", body)
            if grace_s:
                self.plane.clock.advance(grace_s - 1)
                self.visitor.page("/")
                self.plane.clock.advance(1)
            self.assert_signed_out()
            self.plane.admin("DELETE", "/admin/admin-keys/ann")

    def test_from_another_address(self) -> None:
        """A page says so, and asks nobody to sign in: that would not help."""
        self.sign_in(made_key(self.plane, allowed_ips=["192.168.1.0/24"]))
        self.change(allowed_ips=["10.0.0.0/8"])
        reply = self.visitor.get("/")
        self.assertEqual(reply.status, 403)
        self.assertIn("does not work from this address", Page(reply).text)

    def test_it_may_look_only(self) -> None:
        """Every page says so; whatever changes anything is refused on a page, body unread."""
        self.sign_in(made_key(self.plane, "read_only"))
        page = self.visitor.page("/")
        self.assertIn("may look only", page.text)
        for endpoint in self.plane.guard.endpoints:
            if not endpoint.is_page or endpoint.method != "POST" or endpoint.scope != WRITE:
                continue
            if audience_of(endpoint.pattern) != PEOPLE:
                continue
            reply = self.visitor.send(path_of(endpoint.pattern), {})
            self.assertEqual(reply.status, 403, endpoint.pattern)
            self.assertIn("insufficient_scope", Page(reply).text)
        self.assertEqual(self.visitor.send("/sign-out", {}).status, 303)

    def test_its_scope_becomes_smaller(self) -> None:
        """At once."""
        self.sign_in(made_key(self.plane))
        self.assertNotIn("may look only", self.visitor.page("/").text)
        self.change(scope="read_only")
        self.assertIn("may look only", self.visitor.page("/").text)


def path_of(pattern: str) -> str:
    """A path that an endpoint's pattern stands for."""
    return "/".join("app" if part.startswith("{") else part for part in pattern.split("/"))


class ForgeryTests(DoorTestCase):
    """Forms that another site has sent, or nobody's."""

    def posts(self) -> list[str]:
        found = [
            path_of(endpoint.pattern)
            for endpoint in self.plane.guard.endpoints
            if endpoint.is_page and endpoint.method == "POST"
        ]
        self.assertIn("/sign-in", found)
        self.assertIn("/sign-out", found)
        return found

    def test_pages_take_get_and_post_only(self) -> None:
        """No other method reaches one."""
        for endpoint in self.plane.guard.endpoints:
            if endpoint.is_page:
                self.assertIn(endpoint.method, ("GET", "POST"), endpoint.pattern)

    def test_of_another_origin(self) -> None:
        """Nothing is done, at any address that takes a form, whatever else is right."""
        self.visitor.sign_in()
        self.visitor.page("/")
        forged: list[Headers] = [
            ((b"origin", b"http://evil.example"),),
            ((b"origin", b"null"),),
            ((b"origin", b""),),
            ((b"origin", b"http://control:81"),),
            ((b"origin", b"http://control.evil.example"),),
            ((b"origin", b"ftp://control"),),
            ((b"origin", b"http://control"), (b"origin", b"http://evil.example")),
            ((b"sec-fetch-site", b"cross-site"),),
            ((b"sec-fetch-site", b"same-site"), (b"origin", b"http://control")),
            ((b"sec-fetch-site", b"same-origin"), (b"sec-fetch-site", b"cross-site")),
        ]
        for target in self.posts():
            for headers in forged:
                reply = self.visitor.send(target, {"token": ADMIN_TOKEN}, headers)
                self.assertEqual(reply.status, 403, (target, headers))
                self.assertIn("forged_form", Page(reply).text)
                self.assertNotIn("set-cookie", reply.headers)
        self.visitor.page("/")

    def test_of_no_session(self) -> None:
        """A form needs the token of the session that it is sent in."""
        self.visitor.sign_in()
        self.visitor.page("/")
        other = Visitor(self.plane.talk)
        other.sign_in()
        other.page("/")
        for target in self.posts():
            if target == "/sign-in":
                continue
            for token in ("", "0" * 64, other.form_token, self.visitor.form_token[:-1], "ä€"):
                reply = self.visitor.send(target, {"form_token": token})
                self.assertEqual(reply.status, 403, (target, token))
                self.assertIn("forged_form", Page(reply).text)
        self.visitor.page("/")

    def test_a_strangers_form(self) -> None:
        """Its body is never read; a page says to sign in."""
        for target in self.posts():
            if target == "/sign-in":
                continue
            channel, transport = self.plane.talk.connect()
            head = request_bytes("POST", target)[:-2] + b"content-length: 20\r\n\r\n"
            channel.dataReceived(head)
            reply, _ = read_reply(transport.value())
            self.assertEqual((reply.status, reply.headers["connection"]), (401, "close"), target)
            self.assertEqual(Page(reply).one("a", href="/sign-in").text, "Sign in")

    def test_our_own(self) -> None:
        """However the host is written, and when a browser sends a form again."""
        fine: list[Headers] = [
            (),
            ((b"origin", b"http://control"), (b"sec-fetch-site", b"same-origin")),
            ((b"origin", b"HTTP://CONTROL"),),
            ((b"origin", b"https://control"),),
            ((b"origin", b"http://control:80"),),
            ((b"sec-fetch-site", b"none"),),
        ]
        for headers in fine:
            reply = self.visitor.send("/sign-in", {"token": ADMIN_TOKEN}, headers)
            self.assertEqual(reply.status, 303, headers)

    def test_a_long_form(self) -> None:
        """It is refused before it is read, for strangers and others alike."""
        self.visitor.sign_in()
        for target, headers in (("/sign-in", ()), ("/sign-out", self.visitor.headers())):
            channel, transport = self.plane.talk.connect()
            head = request_bytes("POST", target, headers)[:-2]
            channel.dataReceived(head + b"content-length: %d\r\n\r\n" % (MAX_FORM_BYTES + 1))
            reply, _ = read_reply(transport.value())
            self.assertEqual((reply.status, reply.headers["connection"]), (413, "close"))
            self.assertEqual(Page(reply).one("h1").text, "That is too long")
        self.assertEqual(self.visitor.sign_in("x" * (MAX_FORM_BYTES - 60)).status, 401)


class LockoutTests(DoorTestCase):
    """Whoever guesses."""

    def test_the_form_says_how_long(self) -> None:
        """After 20 wrong tries, and also to the right token; sessions go on."""
        inside = Visitor(self.plane.talk)
        inside.sign_in()
        for _ in range(WRONG_IN_WINDOW):
            self.assertEqual(self.visitor.sign_in("wrong").status, 401)
        self.plane.clock.advance(10)
        reply = self.visitor.sign_in()
        self.assertEqual((reply.status, reply.headers["retry-after"]), (429, "51"))
        self.assertIn("wait 51 seconds", Page(reply).one("p", role="alert").text)
        self.assertEqual(len(Page(reply).all("input", name="token")), 1)
        inside.page("/")
        self.plane.clock.advance(51)
        self.assertEqual(self.visitor.sign_in().status, 303)

    def test_what_was_typed_is_not_repeated(self) -> None:
        """A token may be right but for a letter."""
        reply = self.visitor.sign_in("nearly-the-token")
        self.assertNotIn(b"nearly-the-token", reply.body)


class OnwardTests(DoorTestCase):
    """Where signing in leads."""

    def test_back_to_the_page(self) -> None:
        """With its filters, through the form, a wrong try between."""
        reply = self.visitor.get("/keys?q=a%26b&after=x")
        self.assertEqual(reply.status, 303)
        page = self.visitor.page(reply.headers["location"])
        onward = page.one("input", name="next").attributes["value"]
        self.assertEqual(onward, "/keys?q=a%26b&after=x")
        page = Page(self.visitor.sign_in("wrong", next=onward))
        self.assertEqual(page.one("input", name="next").attributes["value"], onward)
        self.assertEqual(self.visitor.sign_in(next=onward).headers["location"], onward)

    def test_never_elsewhere(self) -> None:
        """Not to another site, nor to what is no page."""
        for onward in (
            "//evil.example",
            "/\\evil.example",
            "https://evil.example/",
            "javascript:alert(1)",
            "evil.example",
            "/%2f/evil.example",
            "/keys\r\nset-cookie: a=b",
            "/keys?a=\nb",
            "/keys?a=ä",
            "/sign-in",
            "/sign-out",
            "/live/requests",
            "/assets/style.css",
            "/admin/keys",
            "/nothing",
            "/keys/../admin",
            "/keys?" + "x" * 3000,
            "",
        ):
            self.assertEqual(self.visitor.sign_in(next=onward).headers["location"], "/", onward)

    @given(st.text())
    def test_any_text(self, text: str) -> None:
        """What comes out is a page of ours, on one line."""
        for target in (text, "/" + text, "/keys?" + text):
            onward = own_path(target)
            parts = urlsplit(onward)
            self.assertEqual((parts.scheme, parts.netloc), ("", ""))
            self.assertTrue(onward.isascii() and onward.isprintable())
            self.assertEqual(audience_of(parts.path), PEOPLE)

    def test_a_long_address(self) -> None:
        """One that does not fit behind the form's is left out."""
        reply = self.visitor.get("/keys?q=" + "%41" * 600)
        self.assertEqual((reply.status, reply.headers["location"]), (303, "/sign-in"))


class HeaderTests(DoorTestCase):
    """What every page is sent with."""

    def assert_kept_in(self, reply: Reply) -> None:
        self.assertEqual(reply.headers["content-type"], "text/html; charset=utf-8")
        for name, value in HEADERS:
            self.assertEqual(reply.headers[name.decode()], value.decode())
        self.assertEqual(reply.headers["cache-control"], "no-store")
        self.assertEqual(reply.headers["x-content-type-options"], "nosniff")

    def test_every_page(self) -> None:
        """Nothing from elsewhere, nothing inline, in no frame, kept by nobody; errors too."""
        self.assert_kept_in(self.visitor.get("/sign-in"))
        self.assert_kept_in(self.visitor.sign_in("wrong"))
        self.visitor.sign_in()
        for target, status in (("/", 200), ("/keys/a/b/c/d", 404), ("/sign-out", 405)):
            reply = self.visitor.get(target)
            self.assertEqual(reply.status, status)
            self.assert_kept_in(reply)
        self.assert_kept_in(self.visitor.send("/sign-out", {"form_token": ""}))
        self.assertEqual(self.visitor.get("/sign-out").headers["allow"], "POST")

    def test_a_page_that_is_not(self) -> None:
        """It says so, with the way back; a stranger is asked to sign in first."""
        self.assertEqual(self.visitor.get("/keys/a/b/c/d").status, 303)
        self.visitor.sign_in()
        page = Page(self.visitor.get("/keys/a/b/c/d"))
        self.assertEqual(page.one("p", role="alert").text, "There is no such page.")
        self.assertEqual(page.one("h1").text, "Not found")

    def test_pages_that_cannot_be_made(self) -> None:
        """Whoever waits is answered in plain words, before and after signing in."""
        self.visitor.sign_in()
        pages = self.plane.lasting.entrance.pages
        self.patch(pages, "answer", broken)
        for headers, target, status in (
            ((), "/assets/nothing", 404),
            ((), "/sign-in", 500),
            (self.visitor.headers(), "/", 500),
            (self.visitor.headers(), "/keys/a/b/c/d", 404),
        ):
            reply = self.plane.talk.ask("GET", target, headers)
            self.assertEqual(reply.status, status, target)
            self.assertEqual(reply.headers["content-type"], "text/plain; charset=utf-8")
            self.assertGreaterEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_head(self) -> None:
        """It answers as GET does, without the page."""
        for target in ("/sign-in", "/"):
            whole = self.visitor.get(target)
            head = self.plane.talk.ask("HEAD", target, self.visitor.headers())
            self.assertEqual((head.status, head.body), (whole.status, b""))
            self.assertEqual(head.headers["content-length"], whole.headers["content-length"])
            self.visitor.sign_in()

    def test_what_is_no_page(self) -> None:
        """Below segments that nothing is behind there are no pages, whoever asks."""
        self.visitor.sign_in()
        for target in ("/nothing", "/favicon.ico", "/Keys", "//", "/keys//a", "/admin/keys"):
            reply = self.visitor.get(target)
            self.assertIn(reply.status, (400, 401, 404), target)
            self.assertEqual(reply.headers["content-type"], "application/problem+json", target)

    def test_assets(self) -> None:
        """Anyone may have them, for ever, by a name that changes with what is in them."""
        page = self.visitor.page("/sign-in")
        links = [link.attributes["href"] for link in page.all("link")]
        links += [script.attributes["src"] for script in page.all("script")]
        self.assertEqual(len(links), 3)
        for link in links:
            self.assertRegex(link, r"^/assets/[a-z]+\.[0-9a-f]{12}\.(css|js|svg)$")
            reply = self.plane.talk.ask("GET", link)
            self.assertEqual(reply.status, 200)
            self.assertEqual(reply.headers["cache-control"], "public, max-age=31536000, immutable")
            self.assertEqual(reply.headers["x-content-type-options"], "nosniff")
        for link in ("/assets/style.css", "/assets/door.py", "/assets/a.b", "/assets/a/b"):
            self.assertEqual(self.plane.talk.ask("GET", link).status, 404)


class SecureTests(DoorTestCase):
    """Cookies over TLS, as far as one can know."""

    PROXIED: Headers = ((b"x-forwarded-proto", b"https"), (b"x-forwarded-for", b"203.0.113.9"))

    def sign_in(self, headers: Headers) -> str:
        reply = self.visitor.send("/sign-in", {"token": ADMIN_TOKEN}, headers)
        self.assertEqual(reply.status, 303)
        return reply.headers["set-cookie"]

    def test_behind_a_trusted_proxy(self) -> None:
        """Its word counts: the cookie goes over TLS only, and is that of no other host."""
        self.plane.talk.factory.gate.proxies = TrustedProxies.parse("192.168.1.1")
        cookie = self.sign_in(self.PROXIED)
        self.assertRegex(cookie, rf"^{SECURE_COOKIE}=.*; Path=/; .*; Secure$")
        self.assertNotIn("Domain", cookie)
        self.assertEqual(self.visitor.get("/", self.PROXIED).status, 200)
        self.assertEqual(self.visitor.get("/").status, 303)
        for headers in (
            ((b"x-forwarded-proto", b"http"),),
            ((b"x-forwarded-proto", b"https, http"),),
            ((b"x-forwarded-proto", b"https"), (b"x-forwarded-proto", b"https")),
        ):
            self.assertNotIn("Secure", self.sign_in(headers))

    def test_over_tls_a_form_comes_from_tls(self) -> None:
        """A page that anyone on the way could have written is another site."""
        self.plane.talk.factory.gate.proxies = TrustedProxies.parse("192.168.1.1")
        self.sign_in((*self.PROXIED, (b"origin", b"https://control")))
        headers: Headers = (*self.PROXIED, (b"origin", b"http://control"))
        reply = self.visitor.send("/sign-in", {"token": ADMIN_TOKEN}, headers)
        self.assertEqual(reply.status, 403)

    def test_over_tls(self) -> None:
        """As behind a proxy, without anybody's word."""
        channel, transport = self.plane.talk.connect()
        directlyProvides(transport, ISSLTransport)
        body = f"token={ADMIN_TOKEN}".encode()
        channel.dataReceived(request_bytes("POST", "/sign-in", body=body))
        reply, _ = read_reply(transport.value())
        self.assertRegex(reply.headers["set-cookie"], rf"^{SECURE_COOKIE}=.*; Secure$")

    def test_over_a_socket_of_the_file_system(self) -> None:
        """A proxy there is believed if it is named as one."""
        for proxies, name in (("unix", SECURE_COOKIE), ("10.0.0.1", PLAIN_COOKIE)):
            self.plane.talk.factory.gate.proxies = TrustedProxies.parse(proxies)
            channel, transport = self.plane.talk.connect()
            transport.peerAddr = UNIXAddress(b"/run/omnigate.sock")
            body = f"token={ADMIN_TOKEN}".encode()
            channel.dataReceived(request_bytes("POST", "/sign-in", self.PROXIED, body))
            reply, _ = read_reply(transport.value())
            self.assertEqual(reply.headers["set-cookie"].partition("=")[0], name)

    def test_a_token_that_others_could_read(self) -> None:
        """The form warns of a plain way, as far as one can know."""
        self.assertIn("did not come over TLS", self.visitor.page("/sign-in").text)
        self.plane.talk.factory.gate.proxies = TrustedProxies.parse("192.168.1.1")
        page = Page(self.visitor.get("/sign-in", self.PROXIED))
        self.assertNotIn("did not come over TLS", page.text)
        for address, is_secure, expected in (
            ("192.0.2.7", False, True),
            ("2001:db8::7", False, True),
            ("fe80::1%eth0", False, True),
            ("127.0.0.1", False, False),
            ("::1", False, False),
            ("", False, False),
            ("192.0.2.7", True, False),
        ):
            self.assertIs(is_readable(address, is_secure), expected, address)

    def test_the_word_of_anybody_else(self) -> None:
        """It does not count."""
        self.assertRegex(self.sign_in(self.PROXIED), rf"^{PLAIN_COOKIE}=.*SameSite=Lax$")

    def test_signing_out(self) -> None:
        """It is the same cookie that goes."""
        self.plane.talk.factory.gate.proxies = TrustedProxies.parse("192.168.1.1")
        self.sign_in(self.PROXIED)
        token = Page(self.visitor.get("/", self.PROXIED)).one("input", name="form_token")
        fields = {"form_token": token.attributes["value"]}
        reply = self.visitor.send("/sign-out", fields, self.PROXIED)
        self.assertRegex(reply.headers["set-cookie"], rf"^{SECURE_COOKIE}=; .*Max-Age=0.*; Secure$")


class LostTests(SynchronousTestCase):
    """An address at which there is nothing at all."""

    def test_a_browser_gets_a_page(self) -> None:
        """Anybody does, and programs get their document as ever."""
        plane = Plane(self.mktemp())
        reply = plane.talk.ask("GET", "/nothing", ((b"accept", b"text/html,*/*;q=0.8"),))
        self.assertEqual((reply.status, Page(reply).one("h1").text), (404, "Not found"))
        self.assertIn("content-security-policy", reply.headers)
        for method, accept in (("GET", b"*/*"), ("POST", b"text/html")):
            reply = plane.talk.ask(method, "/nothing", ((b"accept", accept),))
            self.assertEqual(reply.status, 404)
            self.assertEqual(reply.headers["content-type"], "application/problem+json")
