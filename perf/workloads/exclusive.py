"""Devices that exclude one another: `mig-fill` on a fleet half of whose devices declare groups."""

from collections import defaultdict

from perf.deciding import Decider, Wrong, audit, devices_of
from perf.fleets import exclusive
from perf.workload import Outcome, Progress, Size, Workload, filling, rate
from perf.workloads.mig import drawn_profiles, partition_claim
from reconciler.state.store import Store


def fill(size: Size, progress: Progress) -> Outcome:
    """Claims of one partition each, one after the other, until hardly anything is left."""
    decider = Decider.over(exclusive.fleet(size["nodes"], size["schemes"]))
    profiles = drawn_profiles(size["claims"])
    for number, profile in enumerate(profiles):
        decider.decide(partition_claim(number, profile))
        progress(number + 1, len(profiles))
    audit(decider.store, decider.granted)
    taken = [device for granted in decider.granted for device in devices_of(granted)]
    _check_groups(decider.store, taken)
    return Outcome(
        figures=[
            *(
                rate(f"claims/s, first {first}", decider.seconds[:first])
                for first in (200, 400, 1000)
                if first < len(profiles)
            ),
            *decider.figures(),
        ],
        curves=[filling(decider.seconds)],
    )


def _check_groups(store: Store, taken: list[str]) -> None:
    """Raise Wrong unless all that is held of a GPU shares a group. Looks at the published objects only."""
    groups: dict[tuple[str, str], list[frozenset[str]]] = defaultdict(list)
    wanted = set(taken)
    for spec in (source.spec for source in store.supply.slices):
        for device in spec.devices:
            if f"{spec.driver}/{spec.pool.name}/{device.name}" in wanted:
                draw = device.consumes_counters[0]
                groups[spec.pool.name, draw.counter_set].append(frozenset(draw.compatibility_groups))
    for (pool, counter_set), held in groups.items():
        if any(held) and not frozenset.intersection(*held):
            raise Wrong(f"{counter_set} of {pool} is held in schemes that exclude one another: {held}")


WORKLOADS = [
    Workload(
        "exclusive",
        "mig-fill where half of the devices declare compatibility groups",
        fill,
        {
            "one scheme": {"nodes": 50, "claims": 1600, "schemes": 1},
            "two schemes": {"nodes": 50, "claims": 1600, "schemes": 2},
        },
        tiny={"nodes": 1, "claims": 40, "schemes": 2},
    )
]
