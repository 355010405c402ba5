"""From the sources that an adapter names to outputs that are stored: fetched, judged, kept."""

from __future__ import annotations

from collections.abc import Sequence

from omnigate.jobs.adapters.base import Source
from omnigate.jobs.incoming import Incoming
from omnigate.jobs.job import Job, Output
from omnigate.jobs.output_faults import OutputLimits


class Outputs:
    """Stores the outputs of jobs."""

    def __init__(self, incoming: Incoming) -> None:
        self.incoming = incoming

    async def store(
        self,
        job: Job,
        sources: Sequence[Source],
        *,
        own_origin: str,
        limits: OutputLimits,
        recipients: Sequence[str] = (),
    ) -> tuple[Output, ...]:
        """Fetch and store what an attempt made; what came in for the job is gone then.

        :param own_origin: of the target's ``base_url``: allowed whatever its address is, and the
            only one that a credential goes to.
        :param recipients: of age, to encrypt for; none to store it as it is.
        :raises OutputFault: it could not be; nothing of this attempt is left.
        """
        raise NotImplementedError
