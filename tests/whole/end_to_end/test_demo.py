"""The demonstration settles and shows the expected allocations and reasons."""

import re
import sys
from datetime import datetime, tzinfo
from io import StringIO
from itertools import combinations, count
from typing import Any, NamedTuple, Self

import pytest

from reconciler.api.validation.served_kinds import POD
from reconciler.cli import demo
from reconciler.cli.demo import DemoState, play, read_demo_manifests
from reconciler.cli.output import Console
from reconciler.embedded import ApiServer
from tests.tools.small_fleet import pod


async def shown() -> str:
    out = StringIO()
    await play(read_demo_manifests(sys.stdin.buffer), Console(out))
    return re.sub(r"-[a-z0-9]{5}\b(?=:|  )", "", out.getvalue())


@pytest.mark.loopback
async def test_it_prints_each_allocation_and_why_the_rest_is_pending(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    # Which of equal devices a claim gets depends on when the pods' claims are there, so they are not named.
    text = re.sub(r"(gpu|rdma)-[0-3]\b", r"\1-N", await shown())
    for line in (
        "allocated inference/mig-mix: gpu-N-mig-1g-5gb-0, gpu-N-mig-1g-5gb-1, gpu-N-mig-2g-10gb-2-3, "
        "gpu-N-mig-3g-20gb-4-7 on a100-0",
        "allocated inference/notebook-gpu: gpu-N-mig-1g-5gb-0 on a100-0",
        "allocated inference/chat-gpu: gpu-N on h100-0",
        "allocated research/whole-a100: gpu-N on a100-0",
        "allocated science/torus: slice-4x4 on tpu-0",
        "allocated training/pair: gpu-N, gpu-N on h100-0",
        "allocated training/replica-nic: rdma-N on h100-0",
        "allocated training/trainer-gpu: gpu-N on h100-0",
        "allocated training/trainer-nic: rdma-N on h100-0",
        "inference/vision: ",
        "research/typo: ClassNotFound: ",
        "science/torus-half: CountersExhausted: ",
        "science/torus-of-64: NoMatchingDevice: ",
        "training/mirror-nic: DevicesInUse: ",
        "training/quartet: DevicesInUse: ",
        "9 claims allocated, 8 still in use; 6 pending. Pods: 7 running, 1 succeeded, 1 gated.",
    ):
        assert line in text


def test_all_objects_are_of_one_age_on_a_slow_machine(monkeypatch: pytest.MonkeyPatch):
    """Else claims that were loaded a second before the pods would come first."""
    seconds = count()

    class Slow(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls.fromtimestamp(next(seconds), tz)

    monkeypatch.setattr(demo, "datetime", Slow)
    api = demo.server_of(read_demo_manifests(sys.stdin.buffer))
    made = [one.object["metadata"]["creationTimestamp"] for kind in api.store for one in kind.scan("")]
    assert len(set(made)) == 1
    api.create(POD, "default", pod("later"))
    later = api.store[POD].get("default/later")
    assert later is not None
    assert later.object["metadata"]["creationTimestamp"] not in made


def test_the_reconciler_waits_for_the_claims_of_templates():
    """Else a pod might be decided before one of higher priority, whose claim is not made yet."""
    api, made = ApiServer(), pod("p", templates=("t",))
    api.load([made])
    state = DemoState(api)
    assert not state.claims_made
    status = {"resourceClaimStatuses": [{"name": "t0", "resourceClaimName": "p-t"}]}
    api.update(POD, "default", "p", lambda found: {**found, "status": status}, subresource="status")
    assert state.claims_made


# -- The demo's A100 against the arithmetic of MIG: profiles, places and what each of them draws.


class Profile(NamedTuple):
    memory: str
    slices: int
    multiprocessors: int
    engines: tuple[int, int, int, int]
    """Copy engines, decoders, JPEG engines, OFA engines"""
    starts: tuple[int, ...]
    """First memory slice of each place"""


MIG = {
    "7g.40gb": Profile("40192Mi", 8, 98, (7, 5, 1, 1), (0,)),
    "4g.20gb": Profile("19968Mi", 4, 56, (4, 2, 0, 0), (0,)),
    "3g.20gb": Profile("19968Mi", 4, 42, (3, 2, 0, 0), (0, 4)),
    "2g.10gb": Profile("9856Mi", 2, 28, (2, 1, 0, 0), (0, 2, 4)),
    "1g.10gb": Profile("9856Mi", 2, 14, (1, 1, 0, 0), (0, 2, 4, 6)),
    "1g.5gb+me": Profile("4864Mi", 1, 14, (1, 1, 1, 1), tuple(range(7))),
    "1g.5gb": Profile("4864Mi", 1, 14, (1, 0, 0, 0), tuple(range(7))),
}
ENGINES = ("copy-engines", "decoders", "jpeg-engines", "ofa-engines")


def expected(profile: Profile, start: int) -> dict[str, str]:
    draw = {"memory": profile.memory, "multiprocessors": str(profile.multiprocessors)}
    draw |= {name: str(count) for name, count in zip(ENGINES, profile.engines, strict=True) if count}
    return draw | {f"memory-slice-{n}": "1" for n in range(start, start + profile.slices)}


def slices(pool: str) -> list[dict[str, Any]]:
    return [
        raw["spec"]
        for raw in read_demo_manifests(sys.stdin.buffer)
        if raw["kind"] == "ResourceSlice" and raw["spec"]["pool"]["name"] == pool
    ]


def values(counters: dict[str, dict[str, str]]) -> dict[str, str]:
    return {name: counter["value"] for name, counter in counters.items()}


COUNTERS, DEVICES = sorted(slices("a100-0"), key=lambda spec: "devices" in spec)


@pytest.mark.parametrize("gpu", [0, 1])
@pytest.mark.parametrize("name", MIG)
def test_every_placement_of_a_profile_is_published_and_draws_what_the_profile_needs(name: str, gpu: int):
    found = [
        device["consumesCounters"]
        for device in DEVICES["devices"]
        if device["attributes"].get("profile") == {"string": name}
        and device["attributes"]["parentIndex"] == {"int": gpu}
    ]
    told = [[(draw["counterSet"], values(draw["counters"])) for draw in draws] for draws in found]
    assert told == [[(f"gpu-{gpu}-counter-set", expected(MIG[name], start))] for start in MIG[name].starts]


def test_the_whole_gpu_draws_all_counters():
    totals = {pool["name"]: values(pool["counters"]) for pool in COUNTERS["sharedCounters"]}
    whole = {
        device["consumesCounters"][0]["counterSet"]: values(device["consumesCounters"][0]["counters"])
        for device in DEVICES["devices"]
        if device["attributes"]["type"] == {"string": "gpu"}
    }
    assert whole == totals


def test_each_gpu_has_26_devices_with_unique_names():
    names = [device["name"] for device in DEVICES["devices"]]
    assert len(names) == len(set(names)) == 2 * 26


@pytest.mark.parametrize("pool", ["a100-0", "h100-0", "tpu-4x4"])
def test_pools_have_the_right_slice_count(pool: str):
    by_driver: dict[str, list[dict[str, Any]]] = {}
    for spec in slices(pool):
        by_driver.setdefault(spec["driver"], []).append(spec)
    for specs in by_driver.values():
        assert [spec["pool"]["resourceSliceCount"] for spec in specs] == [len(specs)] * len(specs)


def test_parts_of_the_torus_overlap_where_they_share_a_node():
    chips: dict[str, dict[str, str]] = {}
    for spec in slices("tpu-4x4"):
        for device in spec.get("devices", ()):
            chips[device["name"]] = values(device["consumesCounters"][0]["counters"])
    assert len(chips) == 1 + 2 + 4
    apart = {
        frozenset(pair)
        for pair in combinations(chips, 2)
        if not chips[pair[0]].keys() & chips[pair[1]].keys()
    }
    assert frozenset({"slice-2x4-0", "slice-2x4-1"}) in apart
    assert not any("slice-4x4" in pair for pair in apart)
