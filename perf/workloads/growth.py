"""From one changed slice to a right picture."""

from dataclasses import replace
from time import thread_time

from perf.deciding import Decider
from perf.fleets import mig
from perf.workload import Outcome, Progress, Size, Workload, latencies
from perf.workloads.mig import partition_claim
from reconciler.allocation.dra.allocate import allocate
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.plan import Granted
from reconciler.api.objects.slices import DeviceAttribute, ResourceSlice
from reconciler.cel.program import compile_selector


def delta(size: Size, progress: Progress) -> Outcome:
    """One slice changes; time until the picture, the masks of all profiles and a decision are right again.

    In processor time, since each step is short and waits for nothing.
    """
    decider = Decider.over(mig.fleet(size["nodes"]))
    store = decider.store
    selectors = [compile_selector(mig.profile_is(profile)) for profile in mig.PROFILES]
    slices = sorted((s for s in store.supply.slices if s.spec.devices), key=lambda s: s.key.name)
    pictures, masks, decisions = [], [], []
    for turn in range(size["turns"]):
        change = Changed("ResourceSlice", _renewed(slices[turn * 7 % len(slices)], turn))
        claim = partition_claim(turn, "2g.10gb")
        began = thread_time()
        store.apply(change)
        world = store.snapshot()
        pictured = thread_time()
        for selector in selectors:
            selector.masks(world.fleet.cel)
        masked = thread_time()
        outcome = allocate([claim], world)
        decided = thread_time()
        assert isinstance(outcome, Granted)
        pictures.append(pictured - began)
        masks.append(masked - pictured)
        decisions.append(decided - masked)
        progress(turn + 1, size["turns"])
    return Outcome([
        *latencies([a + b for a, b in zip(pictures, masks, strict=True)], "picture and masks"),
        *latencies(pictures, "picture"),
        *latencies(masks, f"masks of {len(selectors)} selectors"),
        *latencies(decisions, "first decision after"),
    ])  # fmt: skip


def _renewed(source: ResourceSlice, turn: int) -> ResourceSlice:
    """The slice with another driver version on its first device."""
    first, *others = source.spec.devices
    version = DeviceAttribute(version=f"550.{turn}.0")
    device = replace(first, attributes={**first.attributes, "driverVersion": version})
    return source.model_copy(update={"spec": replace(source.spec, devices=(device, *others))})


WORKLOADS = [
    Workload(
        "delta",
        "one slice changes: time until the masks are right",
        delta,
        {"": {"nodes": 50, "turns": 50}},
        tiny={"nodes": 1, "turns": 3},
    ),
]
