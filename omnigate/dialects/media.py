"""Pictures and documents as the OpenAI protocols spell them ⇄ shapes.

Chat and Responses wrap the same three things in different members: the address of a picture, the
content of a file, and the address of a file. A ``path`` names the member in the client's request.
"""

import binascii
from base64 import b64encode
from urllib.parse import unquote_to_bytes

import attrs

from omnigate.dialects.shapes import CacheMark, Document, Image
from omnigate.errors import GatewayError
from omnigate.text import quoted

PDF = "application/pdf"
PLAIN_TEXT = "text/plain"

#: Files of these types travel as text; what they hold is UTF-8.
TEXT_TYPES = frozenset({PLAIN_TEXT, "text/markdown", "text/csv", "application/json"})

# A media type and its parameters; names of media types are at most 127 characters (RFC 6838 §4.2).
_MAX_HEAD_CHARS = 512

_WHITE_SPACE = b" \t\r\n"


@attrs.frozen
class _DataUrl:
    """A data URL (RFC 2397) taken apart.

    :ivar media_type: in lower case, without parameters; empty where there is none.
    :ivar payload: base64 where ``is_base64``, else percent-encoded.
    """

    media_type: str
    is_base64: bool
    payload: str

    def base64(self) -> str:
        """Return the content as base64."""
        if self.is_base64:
            return self.payload
        return b64encode(unquote_to_bytes(self.payload)).decode("ascii")

    def content(self, path: str) -> bytes:
        """Return the content itself.

        :raises GatewayError: it is no base64.
        """
        if not self.is_base64:
            return unquote_to_bytes(self.payload)
        try:
            packed = self.payload.encode("ascii").translate(None, _WHITE_SPACE)
            return binascii.a2b_base64(packed, strict_mode=True)
        except (UnicodeEncodeError, binascii.Error):
            message = f"{path} is no valid base64: encode the file anew, with padding"
            raise GatewayError("invalid_request", message, param=path) from None


def read_image_url(url: str, detail: str | None, cache: CacheMark | None, path: str) -> Image:
    """Read the address of a picture.

    :param path: of the address itself, ``messages[0].content[1].image_url.url``.
    :raises GatewayError: it is neither a data URL of a picture nor an ``http`` or ``https`` URL.
    """
    if _is_web_url(url):
        return Image(url=url, detail=detail, cache=cache, path=path)
    if _scheme(url) != "data":
        message = (
            f"{path} is neither an http(s) URL nor a data URL: send the picture as"
            " data:image/png;base64,… or by its web address"
        )
        raise GatewayError("untranslatable_request", message, param=path)
    data_url = _read_data_url(url, path)
    if not data_url.media_type.startswith("image/"):
        raise _unknown_type(path, data_url.media_type, "a picture")
    return Image(
        media_type=data_url.media_type,
        data=data_url.base64(),
        detail=detail,
        cache=cache,
        path=path,
    )


def read_file(
    file_data: str | None,
    filename: str | None,
    file_url: str | None,
    cache: CacheMark | None,
    path: str,
) -> Document:
    """Read a file: its content, or its address.

    :param file_data: a data URL; or bare base64, of a PDF whose ``filename`` says so.
    :param path: of what holds the members, ``messages[0].content[1].file``.
    :raises GatewayError: there is neither content nor address, or it is of another type.
    """
    if file_data:
        return _read_file_data(file_data, filename, cache, path)
    if not file_url:
        message = f"{path} holds no file: send its content as {path}.file_data"
        raise GatewayError("invalid_request", message, param=path)
    if not _is_web_url(file_url):
        message = f"{path}.file_url is no http(s) URL: send the file's web address or its content"
        raise GatewayError("untranslatable_request", message, param=f"{path}.file_url")
    return Document(PDF, url=file_url, title=filename or None, cache=cache, path=path)


def _read_file_data(
    file_data: str, filename: str | None, cache: CacheMark | None, path: str
) -> Document:
    place = f"{path}.file_data"
    if _scheme(file_data) == "data":
        data_url = _read_data_url(file_data, place)
    elif filename is not None and filename.lower().endswith(".pdf"):
        data_url = _DataUrl(PDF, True, file_data)
    else:
        message = (
            f"{place} does not say what type of file it is: send a data URL, such as"
            " data:application/pdf;base64,…"
        )
        raise GatewayError("untranslatable_request", message, param=place)
    if data_url.media_type == PDF:
        data = data_url.base64()
    elif data_url.media_type in TEXT_TYPES:
        data = _text_of(data_url, place)
    else:
        raise _unknown_type(place, data_url.media_type, "a PDF or a text file")
    media_type = PDF if data_url.media_type == PDF else PLAIN_TEXT
    return Document(media_type, data=data, title=filename or None, cache=cache, path=path)


def _text_of(data_url: _DataUrl, path: str) -> str:
    try:
        return data_url.content(path).decode("utf-8")
    except UnicodeDecodeError:
        message = f"{path} is not UTF-8: send text files in that encoding"
        raise GatewayError("untranslatable_request", message, param=path) from None


def image_data_url(image: Image) -> str:
    """Return the address of a picture for the OpenAI protocols: on the web, or a data URL."""
    return image.url or f"data:{image.media_type};base64,{image.data}"


def pdf_data_url(document: Document) -> str:
    """Return the content of a PDF as a data URL."""
    return f"data:{PDF};base64,{document.data}"


def _scheme(url: str) -> str:
    # No scheme known here is longer than "https".
    scheme, colon, _ = url[:6].partition(":")
    return scheme.lower() if colon else ""


def _is_web_url(url: str) -> bool:
    return _scheme(url) in ("http", "https")


def _read_data_url(url: str, path: str) -> _DataUrl:
    comma = url.find(",", 0, _MAX_HEAD_CHARS)
    if comma < 0:
        message = f"{path} is no whole data URL: it has the form data:<type>;base64,<data>"
        raise GatewayError("invalid_request", message, param=path)
    media_type, *parameters = url[len("data:") : comma].split(";")
    is_base64 = any(parameter.strip().lower() == "base64" for parameter in parameters)
    return _DataUrl(media_type.strip().lower(), is_base64, url[comma + 1 :])


def _unknown_type(path: str, media_type: str, wanted: str) -> GatewayError:
    message = f"{path} is of the type {quoted(media_type)}, not {wanted}: convert it first"
    return GatewayError("untranslatable_request", message, param=path)
