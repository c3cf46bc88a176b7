"""Scopes of GPUs, and parts of them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.api.objects.meta import ObjectKey
from reconciler.plugins.koordinator import answer_cache
from reconciler.plugins.koordinator import fleet as fleet_module
from reconciler.plugins.koordinator.decision import allocate
from reconciler.plugins.koordinator.demand import Demand, Failure
from reconciler.plugins.koordinator.fleet import Fleet, Placed
from reconciler.plugins.koordinator.holdings import Grant, Holdings
from reconciler.plugins.koordinator.machine import machine_of
from reconciler.plugins.koordinator.vocabulary import (
    GPU_MODEL,
    GPU_VENDOR,
    ISOLATION_PROVIDER,
    Device,
    Rules,
    Scoring,
    Semantics,
    Strategy,
)
from tests.tools.examples import examples
from tests.tools.koordinator_builders import (
    HONOR,
    PLANNED,
    PODS,
    TABLE,
    demand,
    device,
    devices,
    gpu,
    holding,
    machine,
    minors,
    nic,
    pod,
    read,
)
from tests.tools.koordinator_builders import given as given_devices

SPOTS = [(0, "0"), (0, "0"), (0, "1"), (0, "1"), (1, "2"), (1, "2"), (1, "3"), (1, "3")]
GPUS = [gpu(i, spot) for i, spot in enumerate(SPOTS)]


@pytest.mark.parametrize("semantics", Semantics)
def test_a_gpu_in_use_that_the_pod_may_not_have_makes_its_switch_busy(semantics: Semantics):
    gpus = [gpu(i, spot, labels={"mine": str(i != 3)}) for i, spot in enumerate(SPOTS[:4])]
    wants = pod({"nvidia.com/gpu": 1}, hint={"gpu": {"selector": {"matchLabels": {"mine": "True"}}}})
    found = given_devices(wants, machine(*gpus, semantics=semantics), holding(gpus=[3]), semantics)
    assert found == {"gpu": [2]}


def test_one_gpu_without_a_place_makes_places_useless():
    on = machine(*GPUS[:4], gpu(4))
    assert given_devices(pod({"nvidia.com/gpu": 2}), on, holding(gpus=[0])) == {"gpu": [1, 2]}
    wants = pod({"nvidia.com/gpu": 2}, hint={"gpu": {"requiredTopologyScope": "PCIe"}})
    assert given_devices(wants, on) == "topology-missing"


def test_several_parts_may_lie_anywhere_but_not_in_a_scope():
    parts = {"gpu.shared": 2, "gpu-memory-ratio": 100}
    assert given_devices(pod(parts), machine(*GPUS), holding(gpus=[0, 2])) == {"gpu": [1, 3]}
    wants = pod(parts, hint={"gpu": {"requiredTopologyScope": "PCIe"}})
    assert given_devices(wants, machine(*GPUS)) == "multi-share-with-required-scope"


@pytest.mark.parametrize(
    ("semantics", "strategy", "expected"),
    [
        # The release mixes up what is there and what is free: each GPU in use looks equally full.
        (Semantics.UPSTREAM, Strategy.LEAST, 3),
        (Semantics.PROPOSAL, Strategy.LEAST, 3),
        (Semantics.UPSTREAM, Strategy.MOST, 0),
        (Semantics.PROPOSAL, Strategy.MOST, 1),
    ],
)
def test_scores_choose_within_a_switch(semantics: Semantics, strategy: Strategy, expected: int):
    on = machine(*(gpu(i, (0, "0")) for i in range(4)), semantics=semantics)
    held = Holdings()
    for minor, share in enumerate((30, 60, 40)):
        holding(gpus=[minor], share=share, by=str(minor), into=held)
    rules = Rules(semantics, Scoring(strategy))
    wants = demand(pod({"gpu": 40}), semantics)
    assert minors(allocate(wants, on, held, rules)) == {"gpu": [expected]}


NAMES = ["a", "b", "c", "d"]
KEY = ObjectKey("default", "p")


def named(found: Device, name: str) -> Device:
    """The same devices on another machine."""
    return found.model_copy(update={"metadata": found.metadata.model_copy(update={"name": name})})


def shared(fleet: Fleet, asked: Demand, name: str) -> Any:
    """What is given on one machine, or None."""
    found = fleet.first(asked, lambda other: other == name)
    return found.allocation if isinstance(found, Placed) else None


def exact(fleet: Fleet, asked: Demand, name: str) -> Any:
    """The slow twin: asks the machine itself."""
    answer = fleet.decide(asked, name)
    return None if isinstance(answer, Failure) else answer


@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize("kept", [3, 1 << 14])
@examples(40)
@given(data=st.data())
def test_shared_answers_equal_those_of_each_machine(semantics: Semantics, kept: int, data: st.DataObject):
    """Few kinds of machines and pods, so that states recur; `kept` is also too small to keep all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answer_cache, "MOST_STATES", kept)
        patch.setattr(answer_cache, "MOST_ANSWERS", kept)
        patch.setattr(fleet_module, "MOST_UNWRITTEN", 1 if kept < 9 else len(NAMES))
        compare(Fleet(Rules(semantics)), data)


def compare(fleet: Fleet, data: st.DataObject) -> None:
    models = [data.draw(devices("model")) for _ in range(2)]
    kinds = data.draw(st.lists(PODS, min_size=1, max_size=3))
    for name in NAMES:
        fleet.put(named(models[0], name), {})
    for step in range(data.draw(st.integers(1, 12))):
        name = data.draw(st.sampled_from(NAMES))
        asked = read(data.draw(st.sampled_from(kinds)), fleet.rules)
        match data.draw(st.sampled_from(["hold", "hold", "hold", "release", "put", "remove"])):
            case "hold":
                if (found := shared(fleet, asked, name)) is not None:
                    fleet.hold(ObjectKey("default", str(step)), name, found, asked.hints)
            case "release":
                fleet.release(ObjectKey("default", str(data.draw(st.integers(0, 11)))))
            case "put":
                fleet.put(named(data.draw(st.sampled_from(models)), name), {})
            case "remove":
                fleet.remove(name)
        for name in NAMES if data.draw(st.booleans()) else ():
            assert shared(fleet, asked, name) == exact(fleet, asked, name)


def test_machines_in_one_state_are_asked_once(monkeypatch: pytest.MonkeyPatch):
    fleet = Fleet(Rules())
    for name in NAMES:
        fleet.put(device(gpu(0, (0, "a")), nic(0, (0, "a"), vfs=2), name=name), {})
    decided: list[str] = []
    exactly = fleet.decide

    def counting(asked: Demand, node: str) -> Any:
        decided.append(node)
        return exactly(asked, node)

    monkeypatch.setattr(fleet, "decide", counting)
    asked = demand(pod({"nvidia.com/gpu": 1, "rdma": 1}, hint={"rdma": {"vfSelector": {}}}))
    for number in range(2 * len(NAMES)):
        if number >= len(NAMES):
            fleet.release(ObjectKey("default", str(number - len(NAMES))))
        found = fleet.first(asked, lambda _: True)
        assert isinstance(found, Placed)
        assert found.node == NAMES[number % len(NAMES)]
        fleet.hold(ObjectKey("default", str(number)), found.node, found.allocation, asked.hints)
    assert decided == ["a"]


PLAIN = {"model": (gpu(0, (0, "a")), nic(0, (0, "a"), vfs=1)), "labels": {}, "annotations": {}}
SMALL = gpu(0)["resources"] | {"koordinator.sh/gpu-memory": "40Gi"}
UNLIKE: list[dict[str, Any]] = [
    {"model": (gpu(0, (0, "a"), health=False), nic(0, (0, "a"), vfs=1))},
    {"model": (gpu(0, (0, "a"), labels={"t": "x"}), nic(0, (0, "a"), vfs=1))},
    {"model": (gpu(0, (0, "b")), nic(0, (0, "a"), vfs=1))},
    {"model": (gpu(0, (1, "a")), nic(0, (0, "a"), vfs=1))},
    {"model": (gpu(0), nic(0, (0, "a"), vfs=1))},
    {"model": (gpu(1, (0, "a")), nic(0, (0, "a"), vfs=1))},
    {"model": (gpu(0, (0, "a"), resources=SMALL), nic(0, (0, "a"), vfs=1))},
    {"model": (gpu(0, (0, "a")), nic(0, (0, "a"), vfs=2))},
    {"model": (gpu(0, (0, "a")), nic(0, (0, "a"), vfs=1, vf_labels={"t": "x"}))},
    {"model": (gpu(0, (0, "a")),)},
    {"labels": HONOR},
    {"labels": PLANNED},
    {"annotations": TABLE},
    {"node": {ISOLATION_PROVIDER: "HAMi-core"}},
    {"node": {GPU_VENDOR: "nvidia"}},
    {"node": {GPU_MODEL: "A100"}},
]  # fmt: skip


def likeness(fields: dict[str, Any], name: str = "n") -> Any:
    fields = PLAIN | fields
    made = device(*fields["model"], name=name, labels=fields["labels"], annotations=fields["annotations"])
    return machine_of(made, fields.get("node", {})).likeness()


@pytest.mark.parametrize("fields", UNLIKE)
def test_whatever_a_decision_reads_tells_machines_apart(fields: dict[str, Any]):
    assert likeness(fields) != likeness({})


def test_names_and_ids_do_not_tell_machines_apart():
    ids = (gpu(0, (0, "a"), id="GPU-1"), nic(0, (0, "a"), vfs=1, id="other"))
    assert likeness({"model": ids}, "m") == likeness({"node": {"kubernetes.io/hostname": "n"}}, "n")


GRANT = Grant(0, {"x": 1})
HINT = demand(pod({"rdma": 1}, hint={"rdma": {"exclusivePolicy": "DeviceLevel"}})).hints


def test_whatever_is_held_tells_states_apart():
    vfs = tuple(machine_of(device(nic(0, vfs=1), name="n"), {}).devices["rdma"][0].vf_groups[0].vfs)
    different: list[Any] = [
        ({}, {}),
        ({"rdma": (GRANT,)}, {}),
        ({"rdma": (GRANT,)}, HINT),
        ({"gpu": (GRANT,)}, {}),
        ({"rdma": (replace(GRANT, minor=1),)}, {}),
        ({"rdma": (replace(GRANT, shares={"x": 2}),)}, {}),
        ({"rdma": (replace(GRANT, shares={"x": 0}),)}, {}),
        ({"rdma": (replace(GRANT, vfs=vfs),)}, {}),
    ]
    found = set()
    for allocation, hints in different:
        holdings = Holdings()
        holdings.hold(KEY, allocation, hints)
        found.add(holdings.state())
        holdings.release(KEY)
        assert holdings.state() == Holdings().state()
    assert len(found) == len(different)
