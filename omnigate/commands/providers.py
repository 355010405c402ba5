"""Which providers there are to be found in an environment, and what a config says of each.

A provider is found by its credential. Where a variable such as ``OPENAI_BASE_URL`` leads somewhere
else, or ``OLLAMA_HOST`` names a server of one's own, that server is asked which models it has.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

import attrs

from omnigate.admin_client import shown_url
from omnigate.config import values
from omnigate.settings import SettingsError, provider_key

#: Names for whatever is quick and cheap, and for whatever is good; both lead to several providers.
FAST, SMART = "fast", "smart"

#: Of a server that is asked, so many models get routes; the first ones it tells.
MAX_ASKED_MODELS: Final = 20

#: Asks a server for its models: its base URL, its protocol, its credential.
Ask = Callable[[str, str, str | None], Sequence[str]]


class AskError(Exception):
    """A server did not tell its models; the text says why."""


@attrs.frozen
class Provider:
    """A provider that many have a credential of.

    :ivar variables: where its credential is looked for, the first one first.
    :ivar redirect: the variable with which its SDKs are led elsewhere.
    :ivar chat_only: it does not serve OpenAI's Responses.
    """

    name: str
    protocol: str
    base_url: str
    variables: tuple[str, ...]
    fast: str
    smart: str
    others: tuple[str, ...] = ()
    redirect: str | None = None
    chat_only: bool = False


#: Models as of late November 2026, each with a price in the built-in table.
PROVIDERS: Final = (
    Provider(
        "openai",
        "openai",
        "https://api.openai.com/v1",
        ("OPENAI_API_KEY",),
        fast="gpt-6-luna",
        smart="gpt-6.2-sol",
        others=("gpt-6.2-astra", "gpt-6.1-terra", "text-embedding-3-small"),
        redirect="OPENAI_BASE_URL",
    ),
    Provider(
        "anthropic",
        "anthropic",
        "https://api.anthropic.com/v1",
        ("ANTHROPIC_API_KEY",),
        fast="claude-haiku-5-5",
        smart="claude-opus-5-5",
        others=("claude-sonnet-5-5", "claude-fable-5-2"),
        redirect="ANTHROPIC_BASE_URL",
    ),
    Provider(
        "xai",
        "openai",
        "https://api.x.ai/v1",
        ("XAI_API_KEY",),
        fast="grok-4.3",
        smart="grok-4.7",
        chat_only=True,
    ),
    Provider(
        "mistral",
        "openai",
        "https://api.mistral.ai/v1",
        ("MISTRAL_API_KEY",),
        fast="mistral-small-latest",
        smart="mistral-large-4",
        others=("mistral-medium-3-5",),
        chat_only=True,
    ),
    Provider(
        "deepseek",
        "openai",
        "https://api.deepseek.com/v1",
        ("DEEPSEEK_API_KEY",),
        fast="deepseek-flash",
        smart="deepseek-v4-pro",
        chat_only=True,
    ),
)

#: Credentials of providers that no upstream can be written for, and why.
NOT_SERVED: Final = {
    "GEMINI_API_KEY": "no routes to its text models, since Gemini's OpenAI-style address does not "
    "end with /v1, which base_url must",
}


@attrs.frozen
class Found:
    """An upstream to be written into a config.

    :ivar credential: the value of :attr:`variable`; None where it stands in a file.
    :ivar file: the file that holds it, of ``variable``'s ``_FILE``.
    :ivar local: a server of one's own, which costs nothing by the token.
    """

    name: str
    protocol: str
    base_url: str
    models: tuple[str, ...]
    fast: str
    smart: str
    variable: str | None = None
    credential: str | None = attrs.field(default=None, repr=False)
    file: str | None = None
    chat_only: bool = False
    local: bool = False


def find_upstreams(environ: Mapping[str, str], ask: Ask) -> tuple[list[Found], list[str]]:
    """Find what the environment has credentials of, and what to tell of the rest.

    :param ask: asks a server for its models; raises :class:`AskError`.
    """
    found: list[Found] = []
    notes: list[str] = []
    for provider in PROVIDERS:
        for variable in provider.variables:
            if environ.get(variable) or environ.get(f"{variable}_FILE"):
                try:
                    found.append(_with_credential(provider, variable, environ, ask))
                except (AskError, SettingsError) as error:
                    notes.append(f"{provider.name} is left out: {error}")
                break
    notes.extend(f"{name}: {why}" for name, why in NOT_SERVED.items() if environ.get(name))
    address = environ.get("OLLAMA_HOST")
    if address:
        try:
            found.append(_asked("ollama", "openai", ollama_url(address), ask, None, local=True))
        except AskError as error:
            notes.append(f"ollama is left out: OLLAMA_HOST: {error}")
    return found, notes


def ollama_url(address: str) -> str:
    """Return the base URL of what ``OLLAMA_HOST`` names, in any of its forms.

    :raises AskError: it names nothing.
    """
    text = address if "://" in address else f"http://{address}"
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port or 11434
    except ValueError:
        host = None
    if not host:
        raise AskError(f'"{shown_url(address)}" is no address; write it as HOST:PORT')
    # A server is told to listen everywhere by that; nobody can be asked there.
    host = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}/v1"


def _with_credential(
    provider: Provider, variable: str, environ: Mapping[str, str], ask: Ask
) -> Found:
    """A provider whose credential is there."""
    secret = provider_key(environ, variable)
    elsewhere = environ.get(provider.redirect, "") if provider.redirect else ""
    path = environ.get(f"{variable}_FILE")
    file = os.path.abspath(path) if path else None
    credential = None if file else secret
    if elsewhere and not _leads_to(elsewhere, provider.base_url):
        url = elsewhere.rstrip("/")
        if provider.protocol == "anthropic":
            url += "/v1"
        try:
            asked = _asked(provider.name, provider.protocol, url, ask, secret)
        except AskError as error:
            raise AskError(f"{provider.redirect}: {error}") from None
        return attrs.evolve(asked, variable=variable, credential=credential, file=file)
    return Found(
        name=provider.name,
        protocol=provider.protocol,
        base_url=provider.base_url,
        models=tuple(dict.fromkeys((provider.smart, *provider.others, provider.fast))),
        fast=provider.fast,
        smart=provider.smart,
        variable=variable,
        credential=credential,
        file=file,
        chat_only=provider.chat_only,
    )


def _leads_to(url: str, base_url: str) -> bool:
    """Whether an address is one of a provider's own host."""
    try:
        return urlsplit(url).hostname == urlsplit(base_url).hostname
    except ValueError:
        return False


def _asked(
    name: str, protocol: str, url: str, ask: Ask, secret: str | None, local: bool = False
) -> Found:
    """A server that tells its models itself."""
    try:
        url = values.base_url(url)
    except values.BadValueError as error:
        raise AskError(f'"{shown_url(url)}" {error}') from None
    models = tuple(filter(_usable, ask(url, protocol, secret)))[:MAX_ASKED_MODELS]
    if not models:
        raise AskError(f"{url} has no models")
    return Found(
        name=name,
        protocol=protocol,
        base_url=url,
        models=models,
        fast=models[0],
        smart=models[0],
        chat_only=protocol == "openai",
        local=local,
    )


def _usable(model: str) -> bool:
    """Whether a route can have this name."""
    try:
        values.model_id(model)
    except values.BadValueError:
        return False
    return True
