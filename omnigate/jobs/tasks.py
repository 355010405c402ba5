"""Coroutines as tasks that others may wait for."""

from __future__ import annotations

from collections.abc import Awaitable

from twisted.internet.defer import Deferred


def begin_task(work: Awaitable[None]) -> Deferred[None]:
    """Begin work; whoever cancels what is returned cancels it."""
    return Deferred.fromCoroutine(_awaited(work))


async def _awaited(work: Awaitable[None]) -> None:
    await work


def follow(task: Deferred[None]) -> Deferred[None]:
    """Return what fires when a task has ended, however that was; cancelling it does nothing."""
    follower: Deferred[None] = Deferred()

    def ended(result: object) -> object:
        if not follower.called:
            follower.callback(None)
        return result

    task.addBoth(ended)
    return follower
