"""Whether the webhook that a client asks for with a job could ever be delivered."""

from __future__ import annotations

from omnigate.config.media import WebhooksConfig
from omnigate.errors import GatewayError
from omnigate.outbound.addresses import AddressGuard
from omnigate.outbound.urls import parse_url


def check_asked(
    url: str, settings: WebhooksConfig, guard: AddressGuard, *, has_secret: bool
) -> None:
    """Refuse what no attempt could deliver.

    Whether the addresses of a name may be reached is judged with each attempt, since they change.

    :param url: one that can be read, which :func:`~omnigate.jobs.admission.read_request` sees to.
    :param has_secret: whether the key has a secret to sign with.
    :raises GatewayError: ``invalid_request``.
    """
    parsed = parse_url(url)
    if not (parsed.secure or settings.allow_http):
        raise _refused(
            "its scheme is not https; have the operator set media.webhooks.allow_http if it must "
            "be http"
        )
    if parsed.packed and not guard.allowed(parsed.packed):
        raise _refused("its address is not public; an operator can open its network")
    if not (has_secret or settings.allow_unsigned):
        raise _refused(
            "this key has no webhook secret to sign with, so nobody could tell that a webhook is "
            "ours; have the operator give it one"
        )


def _refused(reason: str) -> GatewayError:
    return GatewayError(
        "invalid_request", f"webhook_url cannot be used: {reason}", param="webhook_url"
    )
