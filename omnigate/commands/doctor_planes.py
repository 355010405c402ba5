"""What ``omnigate doctor`` judges of the planes: that they are there, and that they agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from omnigate.commands.arguments import counted
from omnigate.commands.doctor_facts import Answer, Facts
from omnigate.commands.doctor_finding import Finding, Found, family
from omnigate.text import one_line

#: The ``date`` of an answer is exact to a second, and the answer may take one.
SKEW_SECONDS: Final = 3.0
#: From here on usage lands in another minute, and a budget turns at another moment.
BAD_SKEW_SECONDS: Final = 60.0

#: A data plane polls every two seconds unless told otherwise, and gives one poll ten.
POLL_SECONDS: Final = 30.0


# -- the planes -------------------------------------------------------------------------------


def files(facts: Facts) -> Found:
    """Environment files that cannot be read leave the rest unseen."""
    for fault in facts.folder_faults:
        yield Finding(
            "settings",
            "fault",
            fault,
            "name the folder with --dir, and run this as a user who may read it",
        )


def control_plane(facts: Facts) -> Found:
    """Whether the control plane is there and ready."""
    yield _plane(
        "control plane",
        facts.control_url,
        facts.control_live,
        facts.control_ready,
        "start it (systemctl start omnigate-control), or give its address in OMNIGATE_CONTROL_URL",
    )


def data_plane(facts: Facts) -> Found:
    """Whether the data plane is there and ready."""
    yield _plane(
        "data plane",
        facts.data_url,
        facts.data_live,
        facts.data_ready,
        "start it (systemctl start omnigate-data), or give its address with --data-url",
    )


def _plane(name: str, url: str, live: Answer, ready: Answer, remedy: str) -> Finding:
    if live.error is not None:
        return Finding(name, "fault", f"cannot be reached at {url} ({live.error})", remedy)
    told = live.json()
    if live.status != 200 or not (isinstance(told, dict) and told.get("status") == "ok"):
        return Finding(name, "fault", f"something else answers at {url}", remedy)
    if ready.status == 200:
        return Finding(name, "ok", f"ready at {url}")
    reason = _reason(ready)
    if reason == "no configuration yet":
        remedy = (
            "it has had no config from the control plane: see the control plane, and "
            "OMNIGATE_CONTROL_URL and OMNIGATE_INTERNAL_TOKEN of the data plane"
        )
    elif "disk" in reason or "file" in reason:
        remedy = "see to its disk; it tries again by itself"
    else:
        remedy = "wait a moment; if it stays so, its log says why"
    return Finding(name, "fault", f"at {url} is not ready: {reason}", remedy)


def _reason(ready: Answer) -> str:
    """Why a plane is not ready, in its own words."""
    if ready.error is not None:
        return ready.error
    told = ready.json()
    if isinstance(told, dict):
        for member in ("reason", "detail", "title"):
            if isinstance(told.get(member), str):
                return one_line(told[member], 200)
    return f"it answers {ready.status}"


# -- who may ask whom -------------------------------------------------------------------------


def admin_token(facts: Facts) -> Found:
    """Whether the control plane knows the admin token."""
    name = "OMNIGATE_ADMIN_TOKEN"
    if facts.admin_fault is not None:
        yield Finding("admin token", "fault", facts.admin_fault, f"mend {name} or {name}_FILE")
    elif facts.admin is None:
        if facts.control_live.error is None:
            yield Finding(
                "admin token",
                "warning",
                "is not known here, so much could not be looked at",
                f"give it in {name} or {name}_FILE, or name the folder of control.env with --dir",
            )
    else:
        yield _token(
            "admin token",
            facts.admin,
            f"give the {name} that the control plane was started with",
        )


def internal_token(facts: Facts) -> Found:
    """Whether the control plane knows the internal token of the data plane."""
    name = "OMNIGATE_INTERNAL_TOKEN"
    if facts.internal_fault is not None:
        yield Finding("internal token", "fault", facts.internal_fault, f"mend {name}")
    elif facts.tokens_differ:
        yield Finding(
            "internal token",
            "fault",
            "control.env and data.env do not agree",
            f"give both planes the same {name}, and restart the one that had another",
        )
    elif facts.internal is not None:
        yield _token(
            "internal token",
            facts.internal,
            f"give both planes the same {name}, and restart the one that had another",
        )
    elif facts.control_live.error is None:
        yield Finding(
            "internal token",
            "note",
            "the data plane's is not known here, so it was not compared",
            "name the folder of data.env with --dir",
        )


def _token(check: str, answer: Answer, remedy: str) -> Finding:
    if answer.error is not None:
        return Finding(check, "fault", f"could not be tried ({answer.error})", "try again")
    if answer.status == 200:
        return Finding(check, "ok", "is the control plane's")
    if answer.status == 503:
        # Whether it was looked at before that, nobody can tell from here.
        return Finding(check, "note", "was not judged while the control plane is not ready")
    if answer.status == 429:
        return Finding(
            check,
            "warning",
            "could not be tried: too many wrong ones came from here",
            "wait a minute",
        )
    if answer.status in (401, 403):
        return Finding(check, "fault", "is not the control plane's", remedy)
    return Finding(
        check,
        "fault",
        f"could not be tried: the control plane answers {answer.status}",
        "is OMNIGATE_CONTROL_URL its address?",
    )


# -- do they agree ----------------------------------------------------------------------------


def versions(facts: Facts) -> Found:
    """Whether both planes are of one version."""
    ours, theirs = (_version(told) for told in (facts.control_metrics, facts.data_metrics))
    if ours is None or theirs is None:
        return
    if ours == theirs:
        yield Finding("versions", "ok", f"both planes are {ours}")
    else:
        yield Finding(
            "versions",
            "warning",
            f"the control plane is {ours}, the data plane {theirs}",
            "restart the one that was not, after an upgrade",
        )


def _version(told: Mapping[str, float] | None) -> str | None:
    for name, labels, _ in family(told, "omnigate_build_info"):
        return labels.get("version", name)
    return None


def clocks(facts: Facts) -> Found:
    """Whether the clocks of both planes go with ours, and so with one another."""
    skews = {
        name: answer.skew
        for name, answer in (
            ("control plane", facts.control_live),
            ("data plane", facts.data_live),
        )
        if answer.skew is not None
    }
    worst = max(skews, key=lambda name: abs(skews[name]), default=None)
    if worst is None:
        return
    if len(skews) == 2:
        apart = abs(skews["control plane"] - skews["data plane"])
        text = f"the planes are {apart:.0f} s apart"
    else:
        apart = 0.0
        text = f"the {worst}'s is {abs(skews[worst]):.0f} s {_ahead(skews[worst])} ours"
    off = max(apart, abs(skews[worst]))
    if off <= SKEW_SECONDS:
        yield Finding("clocks", "ok", "agree to within seconds")
        return
    if apart <= SKEW_SECONDS:
        text = f"the {worst}'s is {off:.0f} s {_ahead(skews[worst])} ours"
    yield Finding(
        "clocks",
        "fault" if apart > BAD_SKEW_SECONDS else "warning",
        text,
        "have all machines set their clocks by the network (timedatectl set-ntp true)",
    )


def _ahead(skew: float) -> str:
    return "ahead of" if skew > 0 else "behind"


def config(facts: Facts) -> Found:
    """Whether the config file is good, and routes anything."""
    known = facts.config
    if known is None:
        return
    if known.faults:
        count = len(known.faults)
        yield Finding(
            "config",
            "fault",
            f"{known.source} has {counted(count, 'fault')}, so an older config is in force; the "
            f"first: {known.faults[0]}"
            if known.in_force
            else f"{known.source}: {known.faults[0]}",
            f"omnigate check {known.source} tells all of them",
        )
    elif not known.routes:
        yield Finding(
            "config",
            "warning",
            f"{known.source} has no routes, so there is no model to ask for",
            "add an upstream and a route, or run omnigate init with a provider's credential",
        )
    else:
        yield Finding(
            "config",
            "ok",
            f"{known.source} is {'in force' if known.in_force else 'good'}, with "
            f"{counted(known.routes, 'route')} and {counted(len(known.upstreams), 'upstream')}",
        )


def config_in_force(facts: Facts) -> Found:
    """Whether the data plane has the config that the control plane has."""
    told = facts.data_metrics
    if told is None:
        return
    polled = told.get("omnigate_data_config_last_poll_timestamp_seconds", 0.0)
    # By the data plane's own clock, which its answers tell.
    age = facts.now + (facts.data_live.skew or 0.0) - polled
    if polled and age <= POLL_SECONDS:
        yield Finding("config in force", "ok", "the data plane has the control plane's")
        return
    text = (
        f"the data plane last had it from the control plane {age:.0f} s ago"
        if polled
        else "the data plane never had one from the control plane since it started"
    )
    yield Finding(
        "config in force",
        "fault",
        text,
        "its log says why; see OMNIGATE_CONTROL_URL and OMNIGATE_INTERNAL_TOKEN of the data plane",
    )


def data_metrics(facts: Facts) -> Found:
    """What could not be looked at, since the data plane has no listener for metrics."""
    if facts.data_metrics is not None or facts.data_live.error is not None:
        return
    if facts.metrics_url is None:
        yield Finding(
            "metrics",
            "note",
            "the data plane's are off, or their place is not known here: its version and its "
            "config were not compared",
            "set OMNIGATE_DATA_METRICS_LISTEN=tcp:9464:interface=127.0.0.1 for it",
        )
    else:
        yield Finding(
            "metrics",
            "warning",
            f"the data plane's cannot be had at {facts.metrics_url} ({facts.metrics_fault})",
            "see OMNIGATE_DATA_METRICS_LISTEN, and restart the data plane after a change",
        )
