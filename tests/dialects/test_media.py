"""Pictures and documents as the OpenAI protocols spell them."""

from base64 import b64encode

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from omnigate.dialects.media import image_data_url, pdf_file, read_file, read_image_url
from omnigate.dialects.shapes import CacheMark, Document, Image
from omnigate.errors import GatewayError

MARK = CacheMark(b"{}", openai=True)


class ImageTests(SynchronousTestCase):
    """A picture's address is a web address or its content."""

    def read(self, url: str) -> Image:
        return read_image_url(url, "low", MARK, "p.url")

    def refused(self, url: str, code: str = "untranslatable_request") -> None:
        error = self.assertRaises(GatewayError, self.read, url)
        self.assertEqual((error.kind.code, error.param), (code, "p.url"))
        self.assertIn("p.url", error.message)

    def test_web(self) -> None:
        """A web address stays as it is, however its scheme is written."""
        for url in ("https://example.test/a.png", "http://example.test/a", "HTTPS://EXAMPLE.TEST/"):
            image = self.read(url)
            self.assertEqual(image, Image(url=url, detail="low", cache=MARK, path="p.url"))
            self.assertEqual(image_data_url(image), url)

    def test_data(self) -> None:
        """A data URL is taken apart, with parameters and any case, and put together again."""
        for url, media_type in (
            ("data:image/png;base64,QUJD", "image/png"),
            ("data:image/jpg;base64,QUJD", "image/jpg"),
            ("DATA:Image/PNG;Base64,QUJD", "image/png"),
            ("data:image/webp;name=a.webp;base64,QUJD", "image/webp"),
            ("data:image/bmp; base64 ,QUJD", "image/bmp"),
        ):
            image = self.read(url)
            self.assertEqual((image.media_type, image.data, image.url), (media_type, "QUJD", ""))
            self.assertEqual(image_data_url(image), f"data:{media_type};base64,QUJD")

    def test_other_addresses(self) -> None:
        """Whatever else is no address a provider could fetch."""
        for url in ("", "file:///etc/passwd", "ftp://example.test/", "gs://b/o", "QUJD", "//x/y"):
            self.refused(url)

    def test_other_types(self) -> None:
        """A data URL must hold a picture, and be whole."""
        for url in ("data:application/pdf;base64,QUJD", "data:;base64,QUJD"):
            self.refused(url)
        for url in (
            "data:image/png;base64",
            "data:",
            "data:,x",
            "data:image/png,ABC",
            "data:base64,ABC",
            "data:" + "x" * 1000 + ";base64,QUJD",
        ):
            self.refused(url, "invalid_request")

    @settings(max_examples=200)
    @given(st.text(max_size=60), st.sampled_from(["", "data:", "data:image/", "https:"]))
    def test_any_text(self, text: str, head: str) -> None:
        """Any text is read or refused."""
        try:
            self.read(head + text)
        except GatewayError as error:
            self.assertEqual(error.kind.status, 400)


class FileTests(SynchronousTestCase):
    """A file is a PDF or a text."""

    def refused(
        self, place: str, code: str, data: str | None, name: str | None, url: str | None = None
    ) -> None:
        error = self.assertRaises(GatewayError, read_file, data, name, url, None, "p")
        self.assertEqual((error.kind.code, error.param), (code, place), data)
        self.assertIn(place, error.message)

    def test_pdf(self) -> None:
        """A PDF stays base64, whether its type is told by the URL or by the name alone."""
        for data, name in (
            ("data:application/pdf;base64,JVBERg==", "a.pdf"),
            ("data:application/pdf;base64,JVBERg==", None),
            ("JVBERg==", "Big Storm.PDF"),
        ):
            document = read_file(data, name, None, MARK, "p")
            self.assertEqual(
                document,
                Document("application/pdf", data="JVBERg==", title=name, cache=MARK, path="p"),
            )
            written = {
                "filename": name or "document.pdf",
                "file_data": "data:application/pdf;base64,JVBERg==",
            }
            self.assertEqual(pdf_file(document), written)

    @settings(max_examples=200)
    @given(
        st.text(max_size=50),
        st.sampled_from(["text/plain", "text/markdown", "text/csv", "application/json"]),
        st.booleans(),
    )
    def test_text(self, text: str, media_type: str, broken: bool) -> None:
        """Texts of every type are decoded, also from base64 in lines."""
        packed = b64encode(text.encode()).decode()
        if broken:
            packed = "\r\n".join(packed[at : at + 8] for at in range(0, len(packed), 8))
        url = f"data:{media_type};charset=utf-8;base64,{packed}"
        document = read_file(url, "log.txt", None, None, "p")
        self.assertEqual(document, Document("text/plain", data=text, title="log.txt", path="p"))

    def test_no_text(self) -> None:
        """A text file must be base64 of UTF-8."""
        latin = b64encode("Müll".encode("latin-1")).decode()
        self.refused(
            "p.file_data", "untranslatable_request", f"data:text/plain;base64,{latin}", None
        )
        for payload in ("QUJ", "Q", "QU*D", "Zürich", "QUJDRA"):
            self.refused("p.file_data", "invalid_request", f"data:text/plain;base64,{payload}", "a")

    def test_other_types(self) -> None:
        """Other files, and what does not say what it is, are refused."""
        code = "untranslatable_request"
        self.refused("p.file_data", code, "data:application/zip;base64,QUJD", "a.pdf")
        self.refused("p.file_data", code, "data:text/html;base64,QUJD", "a.html")
        self.refused("p.file_data", code, "QUJD", "a.txt")
        self.refused("p.file_data", code, "QUJD", None)
        self.refused("p.file_data", "invalid_request", None, "a.pdf")
        self.refused("p.file_data", "invalid_request", "", "a.pdf", "")
        self.refused("p.file_data", "invalid_request", "data:text/plain,words", "a.txt")

    def test_address(self) -> None:
        """A file may be named by its web address."""
        self.assertEqual(
            read_file(None, None, "https://example.test/a.pdf", MARK, "p"),
            Document("application/pdf", url="https://example.test/a.pdf", cache=MARK, path="p"),
        )
        self.refused("p.file_url", "untranslatable_request", None, None, "file:///etc/passwd")
