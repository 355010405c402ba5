"""The files that pages use: a stylesheet, a script, an icon. Each is named after what is in it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from omnigate.control.routes import Answer, Call, Endpoint
from omnigate.errors import GatewayError

FOLDER: Final = Path(__file__).parent / "assets"

_TYPES: Final = {
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}

#: A file of another content has another name, so a browser never has to ask again.
_FOR_EVER: Final = ((b"cache-control", b"public, max-age=31536000, immutable"),)


class Assets:
    """All files of the folder, in memory: they are a few dozen kilobytes."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._paths: dict[str, str] = {}
        self._answers: dict[str, Answer] = {}
        for path in sorted(folder.iterdir()):
            content_type = _TYPES.get(path.suffix)
            if content_type is not None:
                data = path.read_bytes()
                name = f"{path.stem}.{hashlib.sha256(data).hexdigest()[:12]}{path.suffix}"
                self._paths[path.name] = f"/assets/{name}"
                self._answers[name] = Answer(data, content_type, headers=_FOR_EVER)

    def path(self, name: str) -> str:
        """Return where a file is found, such as ``/assets/style.0123456789ab.css``."""
        return self._paths[name]

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoint for the router."""
        return (Endpoint("GET", "/assets/{name}", self.show),)

    async def show(self, call: Call) -> Answer:
        """Answer a file."""
        answer = self._answers.get(call.name)
        if answer is None:
            raise GatewayError("not_found", "there is no such file; load the page again")
        return answer
