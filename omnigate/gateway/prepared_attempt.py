"""An attempt whose request has to be read and made before it is sent.

That is done before a connection is taken, in room reserved for the request's tree, and for a large
one in turns of its own. A target for which it cannot be made is passed over.
"""

from __future__ import annotations

from collections.abc import Generator

from twisted.python.failure import Failure

from omnigate.errors import GatewayError
from omnigate.gateway.attempt import Attempt
from omnigate.gateway.parse_memory import Reservation

#: A longer request is read in a turn that all such share: many may have come whole with this one,
#: and of a megabyte each takes up to 10 ms.
OWN_TURN_BYTES = 64 * 1024


class PreparedAttempt(Attempt):
    """See the module's docstring; subclasses say how the request is made."""

    __slots__ = ()

    def start(self) -> bool:
        """Make the request and send it; ``False`` where the target cannot be sent it."""
        if len(self._exchange.body) > OWN_TURN_BYTES and not self._prepared():
            self._preparing = self._preparation()
            self._plane.watchdog.call_soon(self._start_late)
            return True
        if not self._is_fit():
            return False
        self._proceed()
        return True

    def _prepared(self) -> bool:
        """Whether the request is there already."""
        return False

    def _preparation(self) -> Generator[None, None, None]:
        """Make the request in steps, each in a turn of its own; closing gives back what it holds.

        :raises GatewayError: the target cannot be asked this, or there is no room to read it.
        """
        raise NotImplementedError

    def _prepare_at_once(self) -> None:
        """Make the request in one go.

        :raises GatewayError: as :meth:`_preparation`.
        """
        for _ in self._preparation():
            pass

    def _proceed(self) -> None:
        """The request is there."""
        self._connect()

    def _start_late(self) -> None:
        """A turn that was asked for has come; the client may have left."""
        steps = self._preparing
        if steps is None:
            return
        try:
            self._make_step(steps)
        except Exception:
            self.crashed(Failure())

    def _make_step(self, steps: Generator[None, None, None]) -> None:
        try:
            next(steps)
        except StopIteration:
            self._preparing = None
            self._proceed()
        except GatewayError as error:
            self._pass_over(error)
            self._walker.next()
        else:
            # At once, for it holds the room for a tree.
            self._plane.watchdog.call_next(self._start_late)

    def _is_fit(self) -> bool:
        """Make the request, unless it is there; ``False`` where this target cannot serve it."""
        try:
            if not self._prepared():
                self._prepare_at_once()
        except GatewayError as error:
            self._pass_over(error)
            return False
        return True

    def _pass_over(self, error: GatewayError) -> None:
        # Without the frames that it passed through: they know the body, and us.
        error.__context__ = None
        self._walker.unfit(error.with_traceback(None))

    def part(self) -> float | None:
        """Let go, also of a request that is half made."""
        steps, self._preparing = self._preparing, None
        if steps is not None:
            steps.close()
        return super().part()

    def _room(self) -> Reservation:
        """Room for the tree of the request.

        :raises GatewayError: no tree is made of it, or there is none.
        """
        exchange = self._exchange
        assert exchange.key is not None and exchange.scan is not None
        return self._plane.parse_memory.reserve_tree(
            exchange.key.use, exchange.body, exchange.scan.counts
        )
