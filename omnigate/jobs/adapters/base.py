"""What an adapter is: it builds the requests of one provider and reads its answers, and sends none.

A conversation with a provider is a generator: it yields a
:class:`~omnigate.outbound.messages.Request`, is sent the
:class:`~omnigate.outbound.messages.Answer`, and returns what came of it. So an adapter may need two
calls where another needs one, and none of them knows a socket or a clock::

    def poll(self, task, handle):
        answer = yield Request("GET", …)
        return Running()
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias, TypeVar

import attrs

from omnigate.jobs.job import Billable, JobError
from omnigate.outbound.messages import Answer, KeptMedia, Request

T = TypeVar("T")

Steps: TypeAlias = Generator[Request, Answer, T]


class InputFault(Exception):  # noqa: N818
    """An input that this provider cannot be sent, told before the job exists.

    :ivar field: the member of ``input`` that is at fault; empty where it is the target's ``model``.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


@attrs.frozen
class Task:
    """What an adapter is to do: a job at one target.

    :ivar job_id: the gateway's id.
    :ivar target: the place of the target in its route.
    :ivar base_url: without a slash at its end.
    :ivar credential: the value of ``api_key_env``; empty where the target names none.
    :ivar timeout_s: the route's.
    :ivar background: the target's ``background``; None where it says nothing.
    :ivar input: there for a submit; a poll or a cancel may find it empty, so what these need is
        noted in the :class:`Handle`.
    """

    job_id: str
    target: int
    base_url: str
    model: str
    input: Mapping[str, Any] = attrs.field(repr=False)
    credential: str = attrs.field(default="", repr=False)
    timeout_s: int = 600
    background: bool | None = None


@attrs.frozen
class Handle:
    """What is known of work at a provider: its id there, and what the adapter noted with it."""

    provider_job_id: str
    notes: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen
class UrlSource:
    """An output at a URL of a provider's answer, of ``https`` or ``http``.

    :ivar content_type: as the answer named it; empty where it did not.
    :ivar headers: the credential, for a URL of the origin of ``base_url``; sent to no other one.
    """

    url: str
    content_type: str = ""
    headers: tuple[tuple[str, str], ...] = attrs.field(default=(), repr=False)


@attrs.frozen
class InlineSource:
    """An output that came in the answer: a few bytes, or a file by now.

    :ivar prefix: what is put before the content, such as the head of a WAV file for raw samples.
    """

    content: bytes | KeptMedia = attrs.field(repr=False)
    content_type: str = ""
    prefix: bytes = attrs.field(default=b"", repr=False)


Source: TypeAlias = UrlSource | InlineSource


@attrs.frozen
class Accepted:
    """The provider works on it."""

    handle: Handle


@attrs.frozen
class Done:
    """It is done.

    :ivar provider_ms: milliseconds of media that the provider says it made; -1: it says nothing.
    :ivar provider_job_id: the provider's id, where it gave one with the result.
    """

    sources: Sequence[Source]
    provider_ms: int = -1
    provider_job_id: str = ""


@attrs.frozen
class Running:
    """It goes on.

    :ivar wait_seconds: how long the provider wants to be left alone; 0: it says nothing.
    """

    wait_seconds: float = 0.0


@attrs.frozen
class Failed:
    """This target has come to an end, and the next one is tried.

    :ivar rate_limited: it took nothing in.
    :ivar provider_job_id: the provider's id of what failed at once, where it gave one.
    """

    error: JobError
    rate_limited: bool = False
    provider_job_id: str = ""


@attrs.frozen
class Stopped:
    """The provider says that it was canceled there."""


@attrs.frozen
class Transient:
    """Nothing can be told from this answer; the fifth in a row abandons the target."""

    error: JobError
    wait_seconds: float = 0.0


@attrs.frozen
class NotCanceled:
    """A cancel came too late: the work had ended, or cannot be stopped."""


@attrs.frozen
class Unclear:
    """Nobody can tell from the answer to a cancel; one poll decides."""


SubmitOutcome: TypeAlias = Accepted | Done | Failed
PollOutcome: TypeAlias = Running | Done | Failed | Stopped | Transient
CancelOutcome: TypeAlias = Stopped | NotCanceled | Unclear


class Adapter(ABC):
    """One provider's interface. Adapters keep nothing between calls but what is written here."""

    #: What the config calls it.
    name: ClassVar[str]
    #: The provider's own address.
    default_base_url: ClassVar[str]
    #: Whether the provider can be asked to stop.
    can_cancel: ClassVar[bool] = False

    @abstractmethod
    def check(self, model: str, input: Mapping[str, Any]) -> None:
        """Judge an input before a job exists.

        :raises InputFault: the provider cannot be sent this.
        """

    @abstractmethod
    def billable(self, task: Task) -> Billable:
        """Return the characters and the milliseconds of the request that :meth:`submit` sends.

        Milliseconds are 0 where the request names none; ``outputs`` is left at 0.
        """

    @abstractmethod
    def submit(self, task: Task) -> Steps[SubmitOutcome]:
        """Have the provider begin. What may cost money is sent once."""

    def poll(self, task: Task, handle: Handle) -> Steps[PollOutcome]:
        """Ask how it goes, and fetch the result once it is done."""
        raise NotImplementedError(f"{self.name} answers at once")

    def cancel(self, task: Task, handle: Handle) -> Steps[CancelOutcome]:
        """Ask the provider to stop; only where :attr:`can_cancel`."""
        raise NotImplementedError(f"{self.name} offers no cancel")
