"""The keyed queue, on a clock of the test's own."""

import asyncio

import pytest

from tenantry_operator.workqueue import BACKOFF_LIMIT, Key, WorkQueue

A, B = Key("llm", "a"), Key("llm", "b")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(clock: Clock) -> WorkQueue:
    return WorkQueue(clock)


async def _nothing(queue: WorkQueue) -> bool:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.get(), 0.01)
    return True


async def test_many_requests_for_a_key_are_one(queue: WorkQueue) -> None:
    for key in (A, B, A):
        queue.add(key)
    assert [await queue.get(), await queue.get()] == [A, B]
    assert await _nothing(queue)


async def test_a_key_being_worked_on_comes_again_afterwards(queue: WorkQueue) -> None:
    queue.add(A)
    await queue.get()
    queue.add(A)
    assert await _nothing(queue)
    queue.done(A)
    assert await queue.get() == A


async def test_a_delay_is_kept_and_a_sooner_request_wins(queue: WorkQueue, clock: Clock) -> None:
    queue.add(A, delay=10)
    queue.add(B, delay=20)
    queue.add(B, delay=5)
    assert await _nothing(queue)
    clock.now = 7
    assert await queue.get() == B
    clock.now = 11
    assert await queue.get() == A


async def test_failures_are_retried_later_and_later(queue: WorkQueue, clock: Clock) -> None:
    delays = []
    for _ in range(8):
        queue.add(A)
        await queue.get()
        delays.append(queue.failed(A))
        clock.now += delays[-1]
        assert await queue.get() == A
        queue._release(A)
    assert delays == [1, 2, 4, 8, 16, 32, BACKOFF_LIMIT, BACKOFF_LIMIT]
    queue.done(A)
    assert queue.failed(A) == 1


async def test_a_waiting_worker_wakes_for_a_new_key(queue: WorkQueue) -> None:
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add(A)
    assert await asyncio.wait_for(waiting, 1) == A
