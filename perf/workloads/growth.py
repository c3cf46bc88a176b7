"""From a listing to the first decision, from one changed slice to a right picture, and both by fleet size."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from time import perf_counter, thread_time

from perf.deciding import Decider
from perf.fleets import mig
from perf.fleets.objects import Json
from perf.workload import Figure, Outcome, Progress, Size, Workload, latencies
from perf.workloads.mig import partition_claim
from reconciler.allocation.dra.allocate import allocate
from reconciler.api.objects.changes import Changed, Refused, Replaced
from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.plan import Granted
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.slices import DeviceAttribute, ResourceSlice
from reconciler.cel.program import compile_selector
from reconciler.cluster.events import cut_listing, listed
from reconciler.cluster.kinds import PAGE, Resource
from reconciler.state.store import Store

PLURAL = {"ResourceSlice": "resourceslices", "DeviceClass": "deviceclasses", "Node": "nodes"}


class Stopwatch:
    """Seconds spent, by part."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}
        self._last = perf_counter()

    def begin(self) -> None:
        """Forget what went by since the last part."""
        self._last = perf_counter()

    def lap(self, part: str) -> None:
        """Everything since the last part was this one."""
        now = perf_counter()
        self.parts[part] = self.parts.get(part, 0.0) + now - self._last
        self._last = now


def cold_start(size: Size, progress: Progress) -> Outcome:
    """Pages of a listing as bytes until the first claim is decided, the parser of selectors included."""
    listings = list(_listings(mig.fleet(size["nodes"])))
    claim = partition_claim(0, "3g.20gb")
    watch = Stopwatch()
    store = Store(Semantics())
    for number, (resource, pages) in enumerate(listings):
        objects: list[ApiObject] = []
        watch.begin()
        for page in pages:
            listing = cut_listing(page)
            watch.lap("cut")
            for item in listing.items:
                found = listed(item, resource)
                assert not isinstance(found, Refused)
                objects.append(found)
            watch.lap("read")
        store.apply(Replaced(resource.kind, tuple(objects), ()))
        watch.lap("apply")
        progress(number + 1, len(listings) + 1)
    watch.begin()
    world = store.snapshot()
    watch.lap("picture")
    outcome = allocate([claim], world)
    watch.lap("decision")
    assert isinstance(outcome, Granted)
    progress(1, 1)
    parts = [Figure(part, seconds, "s") for part, seconds in watch.parts.items()]
    return Outcome([Figure("list to first decision", sum(watch.parts.values()), "s"), *parts])


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


def _listings(fleet: Iterable[Json]) -> Iterator[tuple[Resource, list[bytes]]]:
    """The pages of each kind, items without kind and version, as a server sends them."""
    items = sorted(map(_item, fleet), key=lambda item: item[0].kind)
    for resource, of_kind in groupby(items, lambda item: item[0]):
        texts = [text for _, text in of_kind]
        pages = [texts[start : start + PAGE] for start in range(0, len(texts), PAGE)]
        yield resource, [b'{"metadata": {}, "items": [%b]}' % b", ".join(page) for page in pages]


def _item(thing: Json) -> tuple[Resource, bytes]:
    group, _, version = str(thing["apiVersion"]).rpartition("/")
    resource = Resource(thing["kind"], group, version, PLURAL[thing["kind"]], namespaced=False)
    rest = {key: value for key, value in thing.items() if key not in ("kind", "apiVersion")}
    return resource, json.dumps(rest).encode()


def _renewed(source: ResourceSlice, turn: int) -> ResourceSlice:
    """The slice with another driver version on its first device."""
    first, *others = source.spec.devices
    version = DeviceAttribute(version=f"550.{turn}.0")
    device = replace(first, attributes={**first.attributes, "driverVersion": version})
    return source.model_copy(update={"spec": replace(source.spec, devices=(device, *others))})


WORKLOADS = [
    Workload(
        "cold-start",
        "from the bytes of a listing to the first decision",
        cold_start,
        {"": {"nodes": 50}},
        tiny={"nodes": 1},
    ),
    Workload(
        "delta",
        "one slice changes: time until the masks are right",
        delta,
        {"": {"nodes": 50, "turns": 50}},
        tiny={"nodes": 1, "turns": 3},
    ),
]
