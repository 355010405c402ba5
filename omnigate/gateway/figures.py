"""Every figure of the data plane: names, words, labels, and what several workers' make together.

A figure is rows of labels and a number (:mod:`omnigate.metric_families`). What a plane counts is
read part after part, a few hundred rows each (:mod:`omnigate.gateway.plane_figures`), and metrics
are made of parts (:mod:`omnigate.gateway.metrics`), be they of one process or the sum over workers
(:mod:`omnigate.gateway.figure_sums`).

Labels are bounded: routes, upstreams and models are names of the config or ``other``, reasons and
outcomes are words of ours. Key names are no labels.
"""

from __future__ import annotations

from typing import Final

from omnigate.metric_families import Family

REQUESTS: Final = Family(
    "omnigate_data_requests_total",
    "counter",
    "Requests that ended; probes are not among them.",
    ("route", "endpoint", "status_class", "outcome"),
)
REFUSALS: Final = Family(
    "omnigate_data_refusals_total",
    "counter",
    "Requests refused before any upstream was asked.",
    ("reason",),
)
ATTEMPTS: Final = Family(
    "omnigate_data_attempts_total", "counter", "Tries at upstreams.", ("upstream", "outcome")
)
TOKENS: Final = Family(
    "omnigate_data_tokens_total",
    "counter",
    "Tokens metered; cache is none, read or write of the provider's prompt cache.",
    ("route", "direction", "cache"),
)
DURATIONS: Final = Family(
    "omnigate_data_request_duration_seconds",
    "histogram",
    "From the head of a request that reached its route to the end of its answer.",
    ("endpoint",),
)
FIRST_EVENTS: Final = Family(
    "omnigate_data_time_to_first_event_seconds",
    "histogram",
    "From the head of a streamed request to the first byte of its answer.",
    ("endpoint",),
)

#: The figures that the plane also reports to the control plane, under the names that it uses there:
#: here ``omnigate_data_`` stands in front.
REPORTED: Final = {
    family.name.removeprefix("omnigate_data_"): family
    for family in (
        Family(
            "omnigate_data_requests_in_flight",
            "sum",
            "Requests that hold a place, answers read on for nobody among them.",
        ),
        Family(
            "omnigate_data_request_memory_bytes",
            "sum",
            "Memory reserved for the bodies of requests in flight.",
        ),
        Family(
            "omnigate_data_parse_memory_bytes",
            "sum",
            "Memory reserved for the trees of bodies that are taken apart.",
        ),
        Family(
            "omnigate_data_held_answer_bytes",
            "sum",
            "What is kept of answers until it is whole: events, short answers.",
        ),
        Family("omnigate_data_abandoned_answers", "sum", "Answers read on for clients that left."),
        Family("omnigate_data_cache_answers", "sum", "Answers in the response cache."),
        Family("omnigate_data_cache_bytes", "sum", "What they take."),
        Family(
            "omnigate_data_missing_credentials",
            "largest",
            "Upstreams of the config whose credential is not in the environment.",
        ),
        Family(
            "omnigate_data_reactor_lag_seconds",
            "largest",
            "The longest that the reactor was held in the last minute.",
        ),
    )
}

CLIENTS: Final = Family("omnigate_data_client_connections", "sum", "Connections of clients.")
DEADLINES: Final = Family(
    "omnigate_data_deadlines",
    "sum",
    "What the one sweep over deadlines looks at: connections, requests, answers.",
)
TIMERS: Final = Family(
    "omnigate_data_timers", "sum", "Calls that the reactor has been asked for later."
)
CACHE_LOOKUPS: Final = Family(
    "omnigate_data_cache_lookups_total", "counter", "Looks into the response cache.", ("result",)
)
BUILD: Final = Family(
    "omnigate_build_info", "largest", "The versions at work.", ("version", "python", "twisted")
)
UPSTREAM_CONNECTIONS: Final = Family(
    "omnigate_data_upstream_connections",
    "sum",
    "Connections to upstreams: idle ones are kept for the next request.",
    ("upstream", "state"),
)
# Each worker finds out for itself whom it cannot ask; that one has is what matters.
RESTING: Final = Family(
    "omnigate_data_target_resting",
    "largest",
    "Targets that failed and have not answered since: 1 while they rest.",
    ("upstream", "model"),
)
CREDENTIAL_REFUSED: Final = Family(
    "omnigate_data_upstream_credential_refused",
    "largest",
    "Upstreams: 1 while they refuse our credential, or there is none.",
    ("upstream",),
)
UPSTREAM_OPENED: Final = Family(
    "omnigate_data_upstream_connections_opened_total",
    "counter",
    "Connections to upstreams that came about.",
    ("upstream",),
)
SPOOL_EVENTS: Final = Family("omnigate_spool_events", "sum", "Usage events not acknowledged yet.")
SPOOL_BYTES: Final = Family("omnigate_spool_bytes", "sum", "What they take.")
SPOOL_DROPPED: Final = Family(
    "omnigate_spool_dropped_total",
    "counter",
    "Usage events dropped because the spool was full: lost money.",
)
DELIVERED: Final = Family(
    "omnigate_data_usage_delivered_total",
    "counter",
    "Usage events that the control plane acknowledged.",
)
DELIVERY_FAILURES: Final = Family(
    "omnigate_data_delivery_failures_total",
    "counter",
    "Posts of usage that the control plane did not take.",
)
PUT_ASIDE: Final = Family(
    "omnigate_data_usage_put_aside_total",
    "counter",
    "Usage events refused for good: look at the log.",
)
LOG_DROPPED: Final = Family(
    "omnigate_data_access_log_dropped_total",
    "counter",
    "Lines of the access log that could not be written.",
)
RECEIPTS_DROPPED: Final = Family(
    "omnigate_data_receipts_dropped_total",
    "counter",
    "Receipts that the control plane was not told of.",
)
POLL_FAILURES: Final = Family(
    "omnigate_data_config_poll_failures_total",
    "counter",
    "Polls of the config without a usable answer.",
)
# The oldest of all workers': one that has fallen behind is what an alarm is about, and the others
# would hide it.
POLLED: Final = Family(
    "omnigate_data_config_last_poll_timestamp_seconds",
    "smallest",
    "When a poll of the config had a usable answer last; 0 before.",
)
INSTALLED: Final = Family(
    "omnigate_data_config_installed_timestamp_seconds",
    "smallest",
    "When the config in force was put in force; 0 before.",
)

#: Only where the port has TLS by ``https:``. Each worker reads the files by itself.
CERTIFICATE_EXPIRY: Final = Family(
    "omnigate_data_certificate_expiry_timestamp_seconds",
    "smallest",
    "Until when the certificate in force is valid.",
)
CERTIFICATE_FAILURES: Final = Family(
    "omnigate_data_tls_reload_failures_total",
    "counter",
    "New certificates that could not be served; the one in force stayed.",
)

#: Where there are workers: what the parent knows of them.
WORKERS: Final = Family("omnigate_data_workers", "sum", "Workers that serve requests.")
RESTARTS: Final = Family(
    "omnigate_data_worker_restarts_total",
    "counter",
    "Workers started in the place of one that ended.",
)
# One process has these from the Prometheus client.
COLLECTED: Final = Family(
    "python_gc_objects_collected_total",
    "counter",
    "Objects that the collector freed.",
    ("generation",),
)
UNCOLLECTABLE: Final = Family(
    "python_gc_objects_uncollectable_total",
    "counter",
    "Objects that the collector found and could not free.",
    ("generation",),
)
COLLECTIONS: Final = Family(
    "python_gc_collections_total", "counter", "Runs of the collector.", ("generation",)
)

#: All of them, in the order of a scrape.
FAMILIES: Final = (
    REQUESTS,
    REFUSALS,
    ATTEMPTS,
    TOKENS,
    DURATIONS,
    FIRST_EVENTS,
    *REPORTED.values(),
    CLIENTS,
    DEADLINES,
    TIMERS,
    CACHE_LOOKUPS,
    BUILD,
    UPSTREAM_CONNECTIONS,
    RESTING,
    CREDENTIAL_REFUSED,
    UPSTREAM_OPENED,
    SPOOL_EVENTS,
    SPOOL_BYTES,
    DELIVERED,
    SPOOL_DROPPED,
    DELIVERY_FAILURES,
    PUT_ASIDE,
    LOG_DROPPED,
    RECEIPTS_DROPPED,
    POLL_FAILURES,
    POLLED,
    INSTALLED,
    CERTIFICATE_EXPIRY,
    CERTIFICATE_FAILURES,
    WORKERS,
    RESTARTS,
    COLLECTED,
    UNCOLLECTABLE,
    COLLECTIONS,
)
