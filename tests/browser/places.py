"""Every page of the dashboard, in one list: whatever holds for all pages is held for these."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from omnigate.control.auth import PEOPLE, STRANGERS
from omnigate.control.routes import Endpoint, audience_of


@attrs.frozen
class Place:
    """One page as somebody sees it.

    :ivar path: what is opened; ``{request}`` is a request that fell over to another upstream,
        ``{done}`` and ``{failed}`` are media jobs.
    :ivar signed_in: whether one has to be.
    :ivar status: what it is answered with.
    """

    path: str
    signed_in: bool = True
    status: int = 200


#: Every page, those with a name in their path for one name, and some with filters that change how
#: they look.
PLACES: Final = (
    Place("/sign-in", signed_in=False),
    Place("/"),
    Place("/requests"),
    Place("/requests?model=smart&key=support-bot"),
    Place("/requests?key=no-such-key", status=400),
    Place("/requests/one?id={request}"),
    Place("/requests/one?id=no-such-request", status=404),
    Place("/keys"),
    Place("/keys?q=no-such-key"),
    Place("/keys/new"),
    Place("/keys/support-bot"),
    Place("/keys/nightly-summaries"),
    Place("/keys/status-page"),
    Place("/keys/support-bot/edit"),
    Place("/keys/no-such-key", status=404),
    Place("/models"),
    Place("/models/one?model=smart"),
    Place("/models/upstream?name=openai"),
    Place("/usage"),
    Place("/usage?by=model&period=7d"),
    Place("/usage?by=upstream&period=month"),
    Place("/usage?by=day&period=all"),
    Place("/usage?model=fast"),
    Place("/usage?since=2001-01-01&until=2001-01-02"),
    Place("/keys?state=near&order=worst"),
    Place("/try"),
    Place("/try?style=messages"),
    Place("/refusals"),
    Place("/refusals?key=mobile&code=rate_limit_exceeded"),
    Place("/refusals?code=internal_error"),
    Place("/jobs"),
    Place("/jobs?status=failed"),
    Place("/jobs?key=no-such-key", status=400),
    Place("/jobs/{done}"),
    Place("/jobs/{failed}"),
    Place("/jobs/no-such-job", status=404),
    Place("/audit"),
    Place("/audit?action=key.create"),
    Place("/audit?target=nobody"),
    Place("/admin-keys"),
    Place("/admin-keys/new"),
    Place("/admin-keys/deploy-bot/key"),
    Place("/admin-keys/deploy-bot/edit"),
    Place("/config"),
    Place("/config?read=again"),
    Place("/config/routes"),
    Place("/config/media"),
    Place("/config/keys"),
    Place("/config/text"),
    Place("/config/history"),
    Place("/config/history/1"),
)


def pages_of(endpoints: Iterable[Endpoint]) -> set[str]:
    """Return the paths of pages that there are, but for those with a name in them.

    What is asked by scripts, and files, are no pages.
    """
    return {
        endpoint.pattern
        for endpoint in endpoints
        if endpoint.method == "GET"
        and "{" not in endpoint.pattern
        and audience_of(endpoint.pattern) in (PEOPLE, STRANGERS)
        and not endpoint.pattern.startswith(("/live/", "/assets/"))
        and not endpoint.pattern.endswith("/csv")
    }
