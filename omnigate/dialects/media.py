"""Pictures and documents as the OpenAI protocols spell them ⇄ shapes.

Chat and Responses wrap the same three things in different members: the address of a picture, the
content of a file, and the address of a file. A ``path`` names the member in the client's request.
"""

import binascii

from omnigate.dialects.request_body import malformed, missing, untranslatable
from omnigate.dialects.shapes import CacheMark, Document, Image
from omnigate.errors import GatewayError
from omnigate.text import quoted

PDF = "application/pdf"
PLAIN_TEXT = "text/plain"

_UNTITLED_PDF = "document.pdf"

#: Files of these types travel as text; what they hold is UTF-8.
TEXT_TYPES = frozenset({PLAIN_TEXT, "text/markdown", "text/csv", "application/json"})

# A media type and its parameters; names of media types are at most 127 characters (RFC 6838 §4.2).
_MAX_HEAD_CHARS = 512

_WHITE_SPACE = b" \t\r\n"
_WEB = ("http", "https")


def read_image_url(url: str, detail: str | None, cache: CacheMark | None, path: str) -> Image:
    """Read the address of a picture.

    :param path: of the address itself, ``messages[0].content[1].image_url.url``.
    :raises GatewayError: it is neither a data URL of a picture nor an ``http`` or ``https`` URL.
    """
    scheme = _scheme(url)
    if scheme in _WEB:
        return Image(url=url, detail=detail, cache=cache, path=path)
    if scheme != "data":
        message = (
            f"{path} is neither an http(s) URL nor a data URL: send the picture as"
            " data:image/png;base64,… or by its web address"
        )
        raise untranslatable(path, message)
    media_type, data = _read_data_url(url, path)
    if not media_type.startswith("image/"):
        raise _unknown_type(path, media_type, "a picture")
    return Image(media_type=media_type, data=data, detail=detail, cache=cache, path=path)


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
        raise missing(f"{path}.file_data")
    if not _is_web_url(file_url):
        place = f"{path}.file_url"
        raise untranslatable(
            place, f"{place} is no http(s) URL: send the file's web address or its content"
        )
    return Document(PDF, url=file_url, title=filename or None, cache=cache, path=path)


def _read_file_data(
    file_data: str, filename: str | None, cache: CacheMark | None, path: str
) -> Document:
    place = f"{path}.file_data"
    if _scheme(file_data) == "data":
        media_type, data = _read_data_url(file_data, place)
    elif filename is not None and filename.lower().endswith(".pdf"):
        media_type, data = PDF, file_data
    else:
        message = (
            f"{place} does not say what type of file it is: send a data URL, such as"
            " data:application/pdf;base64,…"
        )
        raise untranslatable(place, message)
    if media_type in TEXT_TYPES:
        media_type, data = PLAIN_TEXT, _text_of(data, place)
    elif media_type != PDF:
        raise _unknown_type(place, media_type, "a PDF or a text file")
    return Document(media_type, data=data, title=filename or None, cache=cache, path=path)


def _text_of(data: str, path: str) -> str:
    """Decode the base64 of a text; some encoders part it into lines."""
    try:
        packed = data.encode("ascii")
        if any(white in packed for white in _WHITE_SPACE):
            packed = packed.translate(None, _WHITE_SPACE)
        return binascii.a2b_base64(packed, strict_mode=True).decode("utf-8")
    except UnicodeDecodeError:
        message = f"{path} is not UTF-8: send text files in that encoding"
        raise untranslatable(path, message) from None
    except (UnicodeEncodeError, binascii.Error):
        message = f"{path} is no valid base64: encode the file anew, with padding"
        raise malformed(path, message) from None


def image_data_url(image: Image) -> str:
    """Return the address of a picture for the OpenAI protocols: on the web, or a data URL."""
    return image.url or f"data:{image.media_type};base64,{image.data}"


def pdf_file(document: Document) -> dict[str, str]:
    """Return the members that hold a PDF: its name, which may not lack, and its data URL."""
    data = f"data:{PDF};base64,{document.data}"
    return {"filename": document.title or _UNTITLED_PDF, "file_data": data}


def _scheme(url: str) -> str:
    # No scheme known here is longer than "https".
    scheme, colon, _ = url[:6].partition(":")
    return scheme.lower() if colon else ""


def _is_web_url(url: str) -> bool:
    return _scheme(url) in _WEB


def _read_data_url(url: str, path: str) -> tuple[str, str]:
    """Take a data URL (RFC 2397) apart.

    One that is percent-encoded is refused, as OpenAI does: to decode 8 MB of it takes 0.7 s.

    :returns: the media type in lower case, without its parameters, and the base64.
    """
    comma = url.find(",", 0, _MAX_HEAD_CHARS)
    media_type, *parameters = url[len("data:") : max(comma, 0)].split(";")
    packed = "base64" in parameters or "base64" in [word.strip().lower() for word in parameters]
    if comma < 0 or not packed:
        message = f"{path} is no whole data URL: it has the form data:<type>;base64,<data>"
        raise malformed(path, message)
    return media_type.strip().lower(), url[comma + 1 :]


def _unknown_type(path: str, media_type: str, wanted: str) -> GatewayError:
    message = f"{path} is of the type {quoted(media_type)}, not {wanted}: convert it first"
    return untranslatable(path, message)
