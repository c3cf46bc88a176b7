"""Keys are queued once, have one owner, back off, and are never lost. Time is virtual."""

import asyncio
import random

import pytest

from reconciler.aio.queue import Closed, Queue

HIGH, LOW = (0,), (1,)


def make_queue(random=lambda: 1.0) -> Queue[str]:
    return Queue(base=1.0, cap=60.0, random=random)


async def taken(queue: Queue[str]) -> str:
    async with queue.take() as key:
        return key


async def all_taken(queue: Queue[str]) -> list[str]:
    return [await taken(queue) for _ in range(len(queue))]


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_keys_come_by_priority_then_in_the_order_of_their_puts():
    queue = make_queue()
    for key, priority in [("c", LOW), ("a", LOW), ("z", HIGH), ("b", HIGH)]:
        queue.put(key, priority=priority)
    assert await all_taken(queue) == ["z", "b", "c", "a"]


async def test_a_key_put_twice_waits_once_with_the_more_urgent_priority():
    queue = make_queue()
    for key, priority in [("a", LOW), ("b", LOW), ("c", LOW), ("b", HIGH), ("c", LOW)]:
        queue.put(key, priority=priority)
    assert await all_taken(queue) == ["b", "a", "c"]
    assert len(queue) == 0


async def test_a_key_is_owned_by_one_worker_at_a_time():
    """Two workers on one claim would decide twice from the same snapshot."""
    queue = make_queue()
    owners = most = 0

    async def work() -> None:
        nonlocal owners, most
        async with queue.take():
            owners += 1
            most = max(most, owners)
            queue.put("a", priority=LOW)
            await asyncio.sleep(1)
            owners -= 1

    queue.put("a", priority=LOW)
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(work())
    assert most == 1


async def test_a_key_put_while_owned_is_queued_again():
    """An event that arrives while its claim is being reconciled is not lost."""
    queue = make_queue()
    queue.put("a", priority=LOW)
    async with queue.take() as key:
        queue.put(key, priority=LOW)
        assert len(queue) == 0
    assert await taken(queue) == "a"


async def test_what_its_owner_has_seen_brings_no_key_back():
    queue = make_queue()
    for key in "abcd":
        queue.put(key, priority=LOW)
    async with queue.take() as key:
        queue.put(key, priority=LOW)
        queue.has_seen(key)
        queue.has_seen("b")
    assert len(queue) == 3
    async with queue.take() as key:
        queue.has_seen(key)
        queue.put(key, priority=LOW)
    async with queue.take() as key:
        queue.put(key, priority=LOW, after=5.0)
        queue.has_seen(key)
    assert await all_taken(queue) == ["d", "b", "c"]
    assert asyncio.get_running_loop().time() == 5.0


@pytest.mark.parametrize("delays", [(5.0, 0.0), (0.0, 5.0), (9.0, 0.0, 5.0)], ids=str)
async def test_what_was_put_for_later_stays_when_its_owner_has_seen_the_rest(delays: tuple[float, ...]):
    queue = make_queue()
    queue.put("a", priority=LOW)
    async with queue.take() as key:
        for delay in delays:
            queue.put(key, priority=LOW, after=delay)
        queue.wake([key])
        queue.has_seen(key)
    assert len(queue) == 1
    assert await taken(queue) == "a"
    assert asyncio.get_running_loop().time() == 5.0


async def test_a_delayed_key_comes_when_its_time_has_come():
    queue = make_queue()
    queue.put("a", priority=LOW, after=3600.0)
    assert await taken(queue) == "a"
    assert asyncio.get_running_loop().time() == 3600.0


async def test_an_earlier_put_brings_a_delayed_key_forward():
    queue = make_queue()
    queue.put("a", priority=LOW, after=100.0)
    queue.put("a", priority=LOW, after=5.0)
    queue.put("a", priority=LOW, after=50.0)
    assert await taken(queue) == "a"
    assert asyncio.get_running_loop().time() == 5.0
    assert len(queue) == 0


async def test_a_waiting_worker_sees_a_key_that_becomes_due_before_the_one_it_waits_for():
    queue = make_queue()
    queue.put("late", priority=LOW, after=100.0)
    taker = asyncio.create_task(taken(queue))
    await settle()
    queue.put("soon", priority=LOW, after=1.0)
    assert await taker == "soon"
    assert asyncio.get_running_loop().time() == 1.0


async def test_woken_keys_are_due_now_and_others_are_not_made_to_wait():
    queue = make_queue()
    for key in ("a", "b"):
        queue.put(key, priority=LOW, after=100.0)
    queue.wake(["b", "unknown"])
    assert await taken(queue) == "b"
    assert asyncio.get_running_loop().time() == 0.0
    assert len(queue) == 1


async def test_waking_an_owned_key_shortens_the_delay_of_its_next_turn():
    queue = make_queue()
    queue.put("a", priority=LOW)
    async with queue.take() as key:
        queue.put(key, priority=LOW, after=100.0)
        queue.wake([key])
    assert await taken(queue) == "a"
    assert asyncio.get_running_loop().time() == 0.0


async def test_back_off_doubles_to_its_cap_and_starts_again_when_forgotten():
    queue = make_queue()
    assert [queue.failed("a") for _ in range(8)] == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert queue.failed("b") == 1.0
    queue.forget("a")
    assert queue.failed("a") == 1.0


async def test_jitter_takes_away_up_to_half_of_the_delay():
    queue = make_queue(random=lambda: 0.0)
    assert [queue.failed("a") for _ in range(3)] == [0.5, 1.0, 2.0]


async def test_a_thousand_failures_do_not_overflow():
    queue = make_queue()
    assert [queue.failed("a") for _ in range(1100)][-1] == 60.0


async def test_closing_gives_out_due_keys_then_ends_every_worker():
    queue = make_queue()
    done: list[str] = []

    async def work() -> None:
        while True:
            async with queue.take() as key:
                done.append(key)
                await asyncio.sleep(1)

    for key in ("a", "b", "c"):
        queue.put(key, priority=LOW)
    queue.put("backing off", priority=LOW, after=1000.0)
    workers = [asyncio.create_task(work()) for _ in range(2)]
    await settle()
    queue.close()
    queue.put("too late", priority=LOW)
    ends = await asyncio.gather(*workers, return_exceptions=True)
    assert [type(end) for end in ends] == [Closed, Closed]
    assert done == ["a", "b", "c"]
    assert asyncio.get_running_loop().time() == 2.0


async def test_closing_wakes_workers_that_wait_for_nothing():
    queue = make_queue()
    takers = [asyncio.create_task(taken(queue)) for _ in range(3)]
    await settle()
    queue.close()
    assert [type(answer) for answer in await asyncio.gather(*takers, return_exceptions=True)] == [Closed] * 3


async def test_a_worker_cancelled_while_waiting_takes_nothing():
    queue = make_queue()
    taker = asyncio.create_task(taken(queue))
    await settle()
    taker.cancel()
    await settle()
    queue.put("a", priority=LOW)
    assert await taken(queue) == "a"


async def test_a_key_offered_to_a_worker_that_is_cancelled_goes_to_the_next():
    """Cancelled after the wake-up and before the step that would take the key."""
    queue = make_queue()
    first, second = (asyncio.create_task(taken(queue)) for _ in range(2))
    await settle()
    queue.put("a", priority=LOW)
    first.cancel()
    assert await second == "a"
    assert first.cancelled()


async def test_a_key_is_released_when_its_owner_is_cancelled():
    queue = make_queue()

    async def work() -> None:
        async with queue.take() as key:
            queue.put(key, priority=LOW)
            await asyncio.sleep(1000)

    queue.put("a", priority=LOW)
    worker = asyncio.create_task(work())
    await settle()
    worker.cancel()
    assert await taken(queue) == "a"


@pytest.mark.parametrize("seed", range(40))
async def test_whatever_happens_no_put_is_lost_and_no_key_has_two_owners(seed):
    """Puts, delays, wake-ups, failures and cancelled workers, in any order."""
    rng = random.Random(seed)
    queue = make_queue(rng.random)
    keys = "abcdef"[: 1 + seed % 6]
    owed: dict[str, float] = {}
    owned: set[str] = set()
    failing = 0.3

    async def work() -> None:
        while True:
            async with queue.take() as key:
                assert key not in owned
                owned.add(key)
                owed.pop(key, None)
                try:
                    await asyncio.sleep(rng.choice([0, 0, 1, 5]))
                finally:
                    owned.discard(key)
                    if rng.random() < failing:
                        put(key, queue.failed(key))

    def put(key: str, after: float) -> None:
        owed[key] = min(owed.get(key, 1e9), asyncio.get_running_loop().time() + after)
        queue.put(key, priority=(rng.randrange(3),), after=after)

    workers = [asyncio.create_task(work()) for _ in range(3)]
    for _ in range(200):
        match rng.randrange(5):
            case 0 | 1:
                put(rng.choice(keys), rng.choice([0, 0, 2, 30]))
            case 2:
                queue.wake(rng.sample(keys, rng.randint(0, len(keys))))
            case 3:
                await asyncio.sleep(rng.choice([0, 0.5, 3]))
            case 4:
                index = rng.randrange(3)
                workers[index].cancel()
                workers[index] = asyncio.create_task(work())
    failing = 0.0
    await asyncio.sleep(1000)
    assert (owed, len(queue), queue.oldest_age) == ({}, 0, 0)
    for worker in workers:
        worker.cancel()
    ends = await asyncio.gather(*workers, return_exceptions=True)
    assert [type(end) for end in ends] == [asyncio.CancelledError] * 3


async def test_the_oldest_age_counts_from_when_a_key_could_have_been_taken():
    queue = make_queue()
    assert queue.oldest_age == 0.0
    queue.put("backing off", priority=LOW, after=10.0)
    queue.put("a", priority=LOW)
    await asyncio.sleep(4)
    queue.put("a", priority=HIGH)
    assert queue.oldest_age == 4.0
    await taken(queue)
    assert queue.oldest_age == 0.0
    await asyncio.sleep(7)
    assert queue.oldest_age == 1.0


async def test_memory_follows_the_keys_that_wait_not_the_wake_ups_they_had():
    queue = make_queue()
    for _ in range(1000):
        queue.put("a", priority=LOW, after=1e6)
        queue.wake(["a"])
        await taken(queue)
    assert len(queue._later) + len(queue._ready) < 200


async def test_memory_follows_the_keys_that_wait_not_those_that_became_urgent_before_them():
    queue = make_queue()
    queue.put("never", priority=LOW)
    for _ in range(1000):
        queue.put("a", priority=LOW)
        queue.put("a", priority=HIGH)
        assert await taken(queue) == "a"
    assert len(queue._later) + len(queue._ready) < 200
    assert await taken(queue) == "never"


async def test_dropped_keys_have_no_turn_and_can_be_put_again():
    queue = make_queue()
    for number in range(200):
        queue.put(f"drop {number}", priority=HIGH)
    queue.put("keep", priority=LOW)
    queue.put("drop later", priority=LOW, after=10.0)
    assert len(queue.drop(lambda key: key.startswith("drop"))) == 201
    assert len(queue) == 1
    assert len(queue._later) + len(queue._ready) < 100
    queue.put("drop 7", priority=LOW)
    assert [await taken(queue), await taken(queue)] == ["keep", "drop 7"]


async def test_what_is_due_and_what_backs_off_is_counted_apart():
    queue = make_queue()
    queue.put("a", priority=LOW)
    queue.put("b", priority=LOW, after=queue.failed("b"))
    assert (queue.due, len(queue), queue.retries) == (1, 2, 1)
    await asyncio.sleep(1)
    assert (queue.due, len(queue)) == (2, 2)
    queue.forget("b")
    queue.failed("a")
    assert queue.retries == 2


async def test_the_next_key_can_be_seen_and_stays_queued():
    queue = make_queue()
    assert queue.peek() is None
    for key, priority, after in [("c", LOW, 0.0), ("a", HIGH, 0.0), ("later", HIGH, 5.0), ("b", LOW, 0.0)]:
        queue.put(key, priority=priority, after=after)
    queue.put("b", priority=HIGH)
    assert [queue.peek(), await taken(queue)] == ["a", "a"]
    assert [await taken(queue) for _ in range(2)] == ["b", "c"]
    assert queue.peek() is None


@pytest.mark.parametrize("seed", range(30))
async def test_keys_are_taken_by_priority_and_then_in_the_order_of_their_first_put(seed: int):
    """Twin: a search among all keys."""
    dice, queue = random.Random(seed), make_queue()
    waiting: dict[str, tuple[int, int, float]] = {}
    now = asyncio.get_running_loop().time

    def due() -> list[str]:
        return sorted((key for key, one in waiting.items() if one[2] <= now()), key=waiting.__getitem__)

    for number in range(300):
        match dice.randrange(5):
            case 0 | 1 | 2:
                key, priority, after = (
                    f"k{dice.randrange(40)}",
                    dice.choice((1, 1, 1, 0, 2)),
                    dice.choice((0, 0, 3)),
                )
                queue.put(key, priority=(priority,), after=after)
                known = waiting.get(key, (priority, number, now() + after))
                waiting[key] = min(known[0], priority), known[1], min(known[2], now() + after)
            case 3 if due():
                found = await taken(queue)
                assert found == due()[0]
                del waiting[found]
            case 4 if number % 20 == 0:
                await asyncio.sleep(1)
        assert queue.peek() == next(iter(due()), None)
