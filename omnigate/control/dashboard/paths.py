"""Where the pages of keys, models, upstreams and requests are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode

#: What stands where the name of a key would, and is a page of its own.
_NO_KEY: Final = "new"


def key_path(name: str) -> str:
    """Return where the page of a gateway key is; of one that is gone, by its hash."""
    return f"/keys/{name}/key" if name == _NO_KEY else f"/keys/{name}"


def model_path(model: str) -> str:
    """Return where the page of a model is."""
    return f"/models/one?{urlencode({'model': model})}"


def upstream_path(name: str) -> str:
    """Return where the page of an upstream is."""
    return f"/models/upstream?{urlencode({'name': name})}"


def admin_key_path(name: str) -> str:
    """Return where the page of an admin key is."""
    return f"/admin-keys/{name}/key"


def request_path(request_id: str) -> str:
    """Return where the page of a request is.

    Ids come from elsewhere, too, and may hold any character; a path here is never percent-encoded,
    so that two readers cannot see two paths in it. So the id stands in the query.
    """
    return f"/requests/one?id={quote(request_id, safe='')}"


def search_path(filters: Mapping[str, str]) -> str:
    """Return where the list of requests is with filters; those that are empty are left out."""
    query = urlencode({name: value for name, value in filters.items() if value})
    return f"/requests?{query}" if query else "/requests"


def job_path(job_id: str) -> str:
    """Return where the page of a media job is."""
    return f"/jobs/{job_id}"


def job_file_path(job_id: str, n: int) -> str:
    """Return where an output of a media job is shown to people."""
    return f"/job-files/{job_id}/{n}"


def jobs_path(filters: Mapping[str, str]) -> str:
    """Return where the list of media jobs is with filters; those that are empty are left out."""
    query = urlencode({name: value for name, value in filters.items() if value})
    return f"/jobs?{query}" if query else "/jobs"
