"""Bursts: many claims of one template, decided one by one and together."""

from time import perf_counter, thread_time

from perf.deciding import Decider, Wrong, audit, read_claim
from perf.fleets import gpus, mig
from perf.fleets.objects import Json, claim, exactly
from perf.workload import Figure, Outcome, Progress, Size, Workload
from reconciler.allocation.dra.copies import allocate_copies
from reconciler.allocation.dra.repeats import repeated
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted

AT_ONCE = 250
"""Claims of one pass. One pass must not hold the event loop for 50 ms"""
TURN = 50
"""Claims that are decided in one way before the next way takes its turn"""


def whole(size: Size, progress: Progress) -> Outcome:
    """Pods of one template with one GPU each."""
    return _burst([*gpus.fleet(size["nodes"])], exactly("gpu", gpus.CLASS), size, progress)


def tied(size: Size, progress: Progress) -> Outcome:
    """Pods of one template with two GPUs of one NUMA node each."""
    return _burst(
        [*gpus.fleet(size["nodes"])], exactly("gpus", gpus.CLASS, count=2), size, progress, gpus.NUMA
    )


def partitions(size: Size, progress: Progress) -> Outcome:
    """Pods of one template with one partition each."""
    return _burst([*mig.fleet(size["nodes"])], mig.partition("partition", "1g.5gb"), size, progress)


def _burst(fleet: list[Json], request: Json, size: Size, progress: Progress, match: str = "") -> Outcome:
    """The same claims three times, in turns, so that all ways meet the same machine. Raises Wrong if two of
    them give other devices.
    """
    alone, loop, together = (Decider.over(fleet) for _ in range(3))
    claims = [
        read_claim(claim(f"claim-{number}", [request], match=match)) for number in range(size["claims"])
    ]
    for decider in (alone, loop, together):
        for one in claims:
            decider.store.apply(Changed("ResourceClaim", one))
        decider.grant(claims[0])  # selectors run once, whatever decides the others
        decider.seconds.clear()
        decider.processor = 0.0
    done = 1
    for start in range(1, len(claims), AT_ONCE):
        batch = claims[start : start + AT_ONCE]
        for at in range(0, len(batch), TURN):
            for one in batch[at : at + TURN]:
                alone.grant(one)
            for one in batch[at : at + TURN]:
                _repeat(loop, one)
        _at_once(together, batch)
        done += len(batch)
        progress(done, len(claims))
    answers = [
        [one.plans for one in decider.outcomes if isinstance(one, Granted)]
        for decider in (alone, loop, together)
    ]
    if not answers[0] == answers[1] == answers[2]:
        raise Wrong("claims that are decided together must get the devices that they get one by one")
    audit(together.store, together.granted)
    count = len(claims) - 1
    one_by_one = alone.processor / count
    return Outcome(
        [
            Figure("together, claims/s", count / sum(together.seconds), "/s", "more"),
            Figure("together, claims/s of processor time", count / together.processor, "/s", "more"),
            Figure("one by one, claims/s of processor time", count / alone.processor, "/s", "more"),
            Figure("times as fast", one_by_one / (together.processor / count), "x", "more"),
            Figure(
                "unit by unit with places found ahead, claims/s of processor time",
                count / loop.processor,
                "/s",
                "more",
            ),
            Figure("longest pass", max(together.seconds) * 1e3, "ms"),
        ]
    )


def _at_once(decider: Decider, claims: list[ResourceClaim]) -> None:
    """Decide claims in as few passes as possible."""
    store = decider.store
    busy, began = thread_time(), perf_counter()
    found = allocate_copies(claims, store.snapshot())
    for granted in found:
        store.assume(granted.plans[0])
    decider.seconds.append(perf_counter() - began)
    decider.processor += thread_time() - busy
    decider.outcomes += found
    if len(found) < len(claims):
        raise Wrong(f"{len(found)} of {len(claims)} copies were placed in one pass")


def _repeat(decider: Decider, one: ResourceClaim) -> None:
    """Decide one claim as the controller does."""
    store = decider.store
    busy = thread_time()
    found = repeated(one, store.snapshot())
    if found is not None:
        store.assume(found.plans[0])
    decider.processor += thread_time() - busy
    if found is None:
        decider.grant(one)
    else:
        decider.outcomes.append(found)


WORKLOADS = [
    Workload(
        "burst",
        "claims of one GPU each of one template: together, beside one by one",
        whole,
        {"": {"nodes": 1250, "claims": 1001}},
        tiny={"nodes": 4, "claims": 9},
    ),
    Workload(
        "burst-numa",
        "the same for two GPUs of one NUMA node",
        tied,
        {"": {"nodes": 1250, "claims": 1001}},
        tiny={"nodes": 4, "claims": 9},
    ),
    Workload(
        "burst-mig",
        "the same for a partition of a GPU",
        partitions,
        {"": {"nodes": 200, "claims": 1001}},
        tiny={"nodes": 2, "claims": 9},
    ),
]
