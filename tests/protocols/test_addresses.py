"""Where an upstream is: what an address may look like."""

from twisted.trial.unittest import SynchronousTestCase

from omnigate.protocols.addresses import (
    AddressError,
    ProxyAddress,
    UpstreamAddress,
    parse_address,
    parse_proxy,
)


class AddressTests(SynchronousTestCase):
    """What an address may look like."""

    def test_whole(self) -> None:
        """Scheme, host, port and path are taken apart, and the slash at the end dropped."""
        self.assertEqual(
            parse_address("https://API.Example.net:8443/gw/v1/"),
            UpstreamAddress("https", "api.example.net", 8443, "/gw/v1"),
        )

    def test_default_ports(self) -> None:
        """A port not given is the scheme's, and then not in the host header."""
        for url, port in (("http://h/v1", 80), ("https://h/v1", 443)):
            address = parse_address(url)
            self.assertEqual((address.port, address.authority), (port, b"h"))
        self.assertEqual(parse_address("http://h:443").authority, b"h:443")

    def test_ip_addresses(self) -> None:
        """An IPv6 address stands in brackets in URLs and headers, and bare everywhere else."""
        address = parse_address("http://[2001:db8::1]:8000/v1")
        self.assertEqual((address.host, address.authority), ("2001:db8::1", b"[2001:db8::1]:8000"))

    def test_refused(self) -> None:
        """Whatever is not plain is refused with a reason."""
        for url, reason in {
            "ftp://h/v1": "http://",
            "h/v1": "no usable host",
            "http:///v1": "no usable host",
            "http://h:0/v1": "port",
            "http://h:99999/": "port",
            "http://h:x/": "port",
            "http://u:p@h/": "no credentials",
            "http://h/v1?a=b": "query",
            "http://h/v1#f": "fragment",
            "http://h/a/../b": "path",
            "http://h//v1": "path",
            "http://h/%2e": "path",
            "http://h\r\nx/": "plain ASCII",
            "http://bücher.example/": "xn--",
            "http://-h/": "no usable host",
        }.items():
            with self.subTest(url=url):
                error = self.assertRaises(AddressError, parse_address, url)
                self.assertIn(reason, str(error))

    def test_proxy(self) -> None:
        """A proxy is a host and a port."""
        self.assertEqual(parse_proxy("http://proxy.test:3128"), ProxyAddress("proxy.test", 3128))
        self.assertEqual(parse_proxy("http://proxy.test/"), ProxyAddress("proxy.test", 80))

    def test_proxy_refused(self) -> None:
        """Only http:// proxies without path and password are known, and no error tells one."""
        for url in (
            "https://p:1",
            "socks5://p:1",
            "http://p:1/x",
            "http://u:hunter2@p:1",
            "http://u:hunter2@:1",
        ):
            with self.subTest(url=url):
                error = self.assertRaises(AddressError, parse_address, "http://h/v1", url)
                self.assertNotIn("hunter2", str(error))
