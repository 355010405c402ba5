"""The webhook that a client asks for with a job, judged before the job exists."""

from __future__ import annotations

from omnigate.config.media import WebhooksConfig
from omnigate.errors import GatewayError
from omnigate.jobs.job import Webhook
from omnigate.outbound.urls import UrlError, parse_url

_PARAM = "webhook_url"


def asked_for(url: object, settings: WebhooksConfig, *, has_secret: bool) -> Webhook | None:
    """Return the webhook of a new job; None where none is asked for.

    Whether its host has an address that may be reached is judged with each attempt, since that
    changes.

    :param url: ``webhook_url`` of the request, whatever it is; None where there is none.
    :param has_secret: whether the key has a secret to sign with.
    :raises GatewayError: ``invalid_request``: it cannot be delivered there.
    """
    if url is None:
        return None
    if not isinstance(url, str):
        raise GatewayError("invalid_request", "webhook_url must be a string", param=_PARAM)
    try:
        parsed = parse_url(url)
    except UrlError as error:
        raise GatewayError(
            "invalid_request", f"webhook_url cannot be used: {error}", param=_PARAM
        ) from None
    if not (parsed.secure or settings.allow_http):
        raise GatewayError(
            "invalid_request",
            "webhook_url cannot be used: its scheme is not https; have the operator set "
            "media.webhooks.allow_http if it must be http",
            param=_PARAM,
        )
    if not (has_secret or settings.allow_unsigned):
        raise GatewayError(
            "invalid_request",
            "webhook_url cannot be used: this key has no webhook secret to sign with; have the "
            "operator give it one, or set media.webhooks.allow_unsigned",
            param=_PARAM,
        )
    return Webhook(url)
