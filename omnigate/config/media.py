"""``[media]`` and ``[outbound]``: media jobs, where their outputs go, and whom they may reach."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Final, Literal, get_args

import attrs

from omnigate.config import key_values, media_values, values
from omnigate.config.structure import Array, Value
from omnigate.money import parse_usd

AdapterName = Literal[
    "replicate",
    "fal",
    "openai_images",
    "elevenlabs",
    "gemini",
    "gemini_interactions",
    "xai_video",
    "sume",
]

#: The adapters there are, each a module of :mod:`omnigate.jobs.adapters`.
ADAPTERS: Final[tuple[str, ...]] = get_args(AdapterName)

#: Bounds on the tables of one file.
MAX_MEDIA_ROUTES: Final = 1_000
MAX_TARGETS: Final = 64
MAX_FIELDS: Final = 200
MAX_RECIPIENTS: Final = 16
MAX_NETWORKS: Final = 256

#: A file of a provider is at most so large: one PUT to a bucket takes 5 GiB.
MAX_OUTPUT_BYTES: Final = 5 * 2**30

EnvName = Annotated[str, Value(values.env_name)]
Flag = Annotated[bool, Value(values.flag)]
PriceUsd = Annotated[Decimal, Value(values.usd(values.MAX_PRICE_USD))]
Networks = Annotated[tuple[Annotated[str, Value(key_values.network)], ...], Array(0, MAX_NETWORKS)]


@attrs.frozen
class MediaPriceConfig:
    """``price`` of a media target, in US dollars; the parts are added up."""

    per_job: PriceUsd = Decimal(0)
    per_output: PriceUsd = Decimal(0)
    per_second: PriceUsd = Decimal(0)
    per_million_characters: PriceUsd = Decimal(0)

    @property
    def nano(self) -> tuple[int, int, int, int]:
        """The four in nano-dollars, in their order."""
        return (
            parse_usd(self.per_job),
            parse_usd(self.per_output),
            parse_usd(self.per_second),
            parse_usd(self.per_million_characters),
        )


@attrs.frozen
class MediaTargetConfig:
    """``[[media.routes.targets]]``: a model at a media provider.

    ``base_url`` None is the provider's own address. Without ``price`` a job costs $0 and is counted
    as unpriced. ``background`` False has ``gemini_interactions`` wait for the answer.
    """

    adapter: Annotated[AdapterName, Value(values.one_of(*ADAPTERS))]
    model: Annotated[str, Value(values.upstream_model)]
    base_url: Annotated[str, Value(values.service_url)] | None = None
    api_key_env: EnvName | None = None
    price: MediaPriceConfig | None = None
    default_seconds: Annotated[int, Value(values.whole(1, 86_400))] | None = None
    min_seconds: Annotated[int, Value(values.whole(0, 86_400))] = 0
    max_seconds: Annotated[int, Value(values.whole(1, 86_400))] | None = None
    background: Flag | None = None


@attrs.frozen
class MediaRouteConfig:
    """``[[media.routes]]``: a model name that jobs write, and the targets tried in their order.

    ``price_multipliers`` maps a field of the input to the factors of its values; a value that is
    not listed is refused.
    """

    model: Annotated[str, Value(values.model_id)]
    targets: Annotated[tuple[MediaTargetConfig, ...], Array(1, MAX_TARGETS)]
    timeout_s: Annotated[int, Value(values.whole(1, 86_400))] = 600
    cache_ttl_s: Annotated[int, Value(values.whole(0, values.MAX_CACHE_TTL_S))] = 0
    allowed_input: (
        Annotated[tuple[Annotated[str, Value(media_values.input_field)], ...], Array(1, MAX_FIELDS)]
        | None
    ) = None
    price_multipliers: Annotated[
        Mapping[str, Mapping[str, Decimal]], Value(media_values.multipliers)
    ] = attrs.Factory(dict)


@attrs.frozen
class WebhooksConfig:
    """``[media.webhooks]``: how the ends of jobs are told to those who asked for it."""

    max_attempts: Annotated[int, Value(values.whole(1, 10))] = 8
    max_concurrent: Annotated[int, Value(values.whole(1, 256))] = 16
    max_concurrent_per_key: Annotated[int, Value(values.whole(1, 256))] = 4
    allow_http: Flag = False
    allow_unsigned: Flag = False


@attrs.frozen
class S3Config:
    """``[media.s3]``: the bucket for ``storage = "s3"``."""

    endpoint: Annotated[str, Value(values.origin_url)]
    bucket: Annotated[str, Value(media_values.bucket)]
    access_key_env: EnvName
    secret_key_env: EnvName
    region: Annotated[str, Value(media_values.region)] = "us-east-1"
    addressing: Annotated[Literal["path", "virtual"], Value(values.one_of("path", "virtual"))] = (
        "path"
    )
    session_token_env: EnvName | None = None


@attrs.frozen
class MediaConfig:
    """``[media]``: media jobs.

    ``max_running_per_provider`` bounds the jobs at one address at once, the others wait.
    ``signed_url_ttl_s`` is how long a signed URL of a file works. ``public_url`` is what clients
    call the gateway, for URLs in webhooks. With ``age_recipients`` outputs are stored encrypted.
    """

    routes: Annotated[tuple[MediaRouteConfig, ...], Array(0, MAX_MEDIA_ROUTES)] = ()
    max_input_bytes: Annotated[int, Value(values.whole(1, 8_000_000))] = 8_000_000
    max_output_bytes: Annotated[int, Value(values.whole(1, MAX_OUTPUT_BYTES))] = 536_870_912
    max_outputs_per_job: Annotated[int, Value(values.whole(1, 256))] = 16
    max_job_output_bytes: Annotated[int, Value(values.whole(1, 16 * MAX_OUTPUT_BYTES))] = (
        1_073_741_824
    )
    poll_interval_ms: Annotated[int, Value(values.whole(100, 600_000))] = 2_000
    max_jobs_per_day: Annotated[int, Value(values.whole(1, 10_000_000))] = 10_000
    max_running_per_provider: Annotated[int, Value(values.whole(1, 1_000))] = 64
    signed_url_ttl_s: Annotated[int, Value(values.whole(60, 604_800))] = 86_400
    public_url: Annotated[str, Value(media_values.public_url)] | None = None
    storage: Annotated[Literal["local", "s3"], Value(values.one_of("local", "s3"))] = "local"
    s3: S3Config | None = None
    webhooks: WebhooksConfig = WebhooksConfig()
    age_recipients: Annotated[
        tuple[Annotated[str, Value(media_values.age_recipient)], ...], Array(0, MAX_RECIPIENTS)
    ] = ()


@attrs.frozen
class OutboundConfig:
    """``[outbound]``: whom webhooks and downloads of outputs may reach beside public addresses.

    ``allow`` opens networks, ``refuse`` closes some that are public; ``refuse`` wins.
    """

    allow: Networks = ()
    refuse: Networks = ()


#: What a file says that has no such table.
NO_MEDIA: Final = MediaConfig()
PUBLIC_ONLY: Final = OutboundConfig()
