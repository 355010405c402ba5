"""What ``omnigate doctor`` judges of what must not run out: disks, the spool, providers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from omnigate.commands.arguments import counted
from omnigate.commands.doctor_facts import Facts, UpstreamFact
from omnigate.commands.doctor_finding import Finding, Found, State, family, reported

#: A tenth and a half of what a spool takes before it drops events.
MANY_EVENTS: Final = 10_000
TOO_MANY_EVENTS: Final = 50_000

#: The ledger grows by some 700 bytes an event: 256 MiB are the next 400,000.
LITTLE_ROOM_BYTES: Final = 1024**3
NO_ROOM_BYTES: Final = 256 * 1024**2

#: Who renews certificates by themselves do so with 30 days left.
CERTIFICATE_DAYS: Final = 14

_MIB: Final = 1024**2
_DAY_SECONDS: Final = 86_400


def ledger(facts: Facts) -> Found:
    """Whether the ledger is loaded and can be written."""
    told = facts.control_metrics
    if told is None:
        return
    if told.get("omnigate_ledger_trouble", 0) > 0:
        yield Finding(
            "ledger",
            "fault",
            "cannot be written now; data planes keep their usage meanwhile",
            "see to the disk of the control plane's state folder, and its log",
        )
    elif told.get("omnigate_ledger_ready") == 0:
        yield Finding("ledger", "fault", "is still being loaded", "wait; its log says how far")
    else:
        yield Finding("ledger", "ok", "is loaded and takes usage")


def disks(facts: Facts) -> Found:
    """Whether there is room where the planes keep their state."""
    for disk in facts.disks:
        check = f"disk of {disk.plane}"
        if not disk.there:
            yield Finding(check, "note", f"{disk.path} is not on this machine, or not to be seen")
            continue
        text = (
            f"{disk.free_bytes // _MIB:,} MiB free of {disk.total_bytes // _MIB:,} at {disk.path}"
        )
        if disk.free_bytes >= LITTLE_ROOM_BYTES:
            yield Finding(check, "ok", text)
        else:
            state: State = "fault" if disk.free_bytes < NO_ROOM_BYTES else "warning"
            yield Finding(check, state, text, "make room, or move the folder to a larger disk")


def spool(facts: Facts) -> Found:
    """Whether usage waits in vain for the control plane, or was lost."""
    # A data plane without a listener for metrics reports these to the control plane.
    told = facts.data_metrics if facts.data_metrics is not None else facts.control_metrics
    if told is None:
        return
    if "omnigate_spool_events" not in told:
        yield Finding(
            "usage",
            "warning",
            "no data plane has reported to the control plane within two minutes",
            "see whether it runs, and its OMNIGATE_CONTROL_URL",
        )
        return
    waiting = int(told["omnigate_spool_events"])
    dropped = int(told.get("omnigate_spool_dropped_total", told.get("omnigate_spool_dropped", 0)))
    if dropped:
        yield Finding(
            "usage",
            "fault",
            f"{dropped:,} events were dropped since the data plane started, and are in no bill",
            "see why the control plane did not take them; a restart begins the count anew",
        )
    elif waiting < MANY_EVENTS:
        yield Finding("usage", "ok", f"{counted(waiting, 'event')} to be sent to the control plane")
    else:
        yield Finding(
            "usage",
            "fault" if waiting >= TOO_MANY_EVENTS else "warning",
            f"{waiting:,} events wait to be sent; from 100,000 on new ones are dropped",
            "see whether the control plane is up and its disk takes writes",
        )


def certificate(facts: Facts) -> Found:
    """For how long the certificate of the public port is valid, where it has one."""
    until = (facts.data_metrics or {}).get("omnigate_data_certificate_expiry_timestamp_seconds", 0)
    if until <= 0:
        return
    days = (until - facts.now) / _DAY_SECONDS
    if days > CERTIFICATE_DAYS:
        yield Finding("certificate", "ok", f"the public port's is valid for {days:.0f} days")
    elif days > 0:
        yield Finding(
            "certificate",
            "warning",
            f"the public port's is valid for {days:.0f} more days",
            "renew it; new files are taken within a minute",
        )
    else:
        yield Finding(
            "certificate",
            "fault",
            "the public port's has expired",
            "renew it; new files are taken within a minute, and the log says why where they are "
            "not",
        )


def credentials(facts: Facts) -> Found:
    """Whether the data plane has the credentials that the config names, and they are taken."""
    known = facts.config
    if known is None:
        return
    needed = [upstream for upstream in known.upstreams if upstream.variable is not None]
    faults = [*_credential_faults(facts, needed)]
    yield from faults
    missing = reported(facts, "omnigate_data_missing_credentials")
    if faults or not needed:
        return
    if missing:
        yield Finding(
            "credentials",
            "fault",
            f"the data plane lacks the credentials of {counted(int(missing), 'upstream')}",
            "its log names the variables; set them in its environment, and restart it",
        )
    elif facts.data_settings or missing is not None:
        yield Finding("credentials", "ok", f"the data plane has all {len(needed)}")
    else:
        yield Finding(
            "credentials",
            "note",
            "the data plane's environment is not known here",
            "name the folder of data.env with --dir",
        )


def _credential_faults(facts: Facts, needed: Sequence[UpstreamFact]) -> Found:
    """The upstreams whose credential is bad as far as can be told one by one."""
    refused = {
        labels.get("upstream")
        for _, labels, value in family(
            facts.data_metrics, "omnigate_data_upstream_credential_refused"
        )
        if value
    }
    for upstream in needed:
        if upstream.credential_fault is not None and facts.data_settings:
            text = upstream.credential_fault
        elif facts.data_settings and not upstream.held:
            text = f"upstream {upstream.name}: {upstream.variable} is not set for the data plane"
        elif upstream.name in refused:
            text = f"upstream {upstream.name} refuses its credential, or the data plane has none"
        else:
            continue
        yield Finding(
            "credentials",
            "fault",
            text,
            f"set {upstream.variable} in the data plane's environment, and restart it",
        )


def media_credentials(facts: Facts) -> Found:
    """Whether the control plane has the secrets that media jobs need."""
    named = () if facts.config is None else facts.config.media
    if not named:
        return
    if not facts.control_settings:
        yield Finding(
            "media credentials",
            "note",
            "the control plane's environment is not known here",
            "name the folder of control.env with --dir",
        )
        return
    for secret in named:
        if secret.fault:
            yield Finding(
                "media credentials",
                "fault",
                f"{secret.user}: {secret.fault}",
                f"set {secret.variable} in the control plane's environment, and restart it",
            )
    if not any(secret.fault for secret in named):
        yield Finding("media credentials", "ok", f"the control plane has all {len(named)}")


def hosts(facts: Facts) -> Found:
    """Whether the providers can be reached from here, which is a warning at most."""
    known = facts.config
    if known is None or not known.upstreams:
        return
    for upstream in known.upstreams:
        if upstream.connect_fault is not None:
            yield Finding(
                "providers",
                "warning",
                f"upstream {upstream.name}: no connection to {upstream.address} from here "
                f"({upstream.connect_fault})",
                "see the network, the name and, if need be, the upstream's proxy",
            )
    if not any(upstream.connect_fault for upstream in known.upstreams):
        yield Finding("providers", "ok", "all hosts take connections from here")
