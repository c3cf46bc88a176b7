"""What was done ahead never shows: answers are those of a store that was filled just now.

Slices, nodes, claims and nominations change at random, pools are built ahead and fleets are joined aside.
"""

from collections.abc import Iterator, Sequence
from itertools import count
from random import Random
from typing import Any

import numpy as np
import pytest

from reconciler.api.objects.changes import Change, Changed, Removed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.plan import Granted, Plan
from reconciler.api.objects.semantics import Semantics
from reconciler.cel.program import compile_selector
from reconciler.control.decider import Decider, Refusal
from reconciler.control.handler import Decide
from reconciler.control.ownership import Ownership
from reconciler.state.devices import inventory
from reconciler.state.devices.inventory import Assembly
from reconciler.state.devices.snapshot import NodeSubset, Snapshot
from reconciler.state.nominations import NOBODY, HeldPlace, Nomination, of_claim
from reconciler.state.store import Store
from tests.tools.builders import (
    Object,
    claim,
    counter_slice,
    device,
    device_class,
    labelled,
    match,
    node,
    node_selector,
    request,
    resource_slice,
    selectors,
    taint,
    taint_rule,
    typed,
)
from tests.tools.examples import FACTOR
from tests.tools.store_picture import offered, places

NODES, GPUS = ("n1", "n2"), 5
KIND = 'device.attributes["d"].kind == "{}"'


def of_kind(kind: str, number: int = 1, name: str = "r", **fields: Any) -> Object:
    return request(name, number, selectors=selectors(KIND.format(kind)), **fields)


SPECS = [
    claim("c", of_kind("gpu")),
    claim("c", of_kind("gpu", 2), constraints=[match("d/numa", "r")]),
    claim("c", of_kind("part")),
    claim("c", of_kind("part"), of_kind("gpu", name="s")),
    claim("c", of_kind("link")),
    claim("c", of_kind("shared", capacity={"mem": "1Gi"})),
    claim("c", of_kind("gpu", adminAccess=True)),
    claim("c", of_kind("zonal")),
    claim("c", request()),
]


def gpus(on: str, number: int, change: int) -> Object:
    """Some GPUs of a node. `change` says what became of one of them."""
    made = [device(f"gpu-{at}", {"kind": "gpu", "numa": at % 2}) for at in range(number)]
    one = change % number
    if change % 4 == 1:
        made[one]["taints"] = [taint("broken")]
    if change % 4 == 2:
        made[one] = device(f"gpu-{one}", {"kind": "old", "numa": 0})
    if change % 4 == 3:
        made[one]["allowMultipleAllocations"] = True
    return resource_slice(f"gpus-{on}", made, pool=f"gpus-{on}", nodeName=on)


def beginning() -> Iterator[Object]:
    yield device_class()
    for on in NODES:
        yield node(on, zone=on[-1])
        yield gpus(on, GPUS, 0)
        where: Any = {"pool": f"card-{on}", "slices": 2, "nodeName": on}
        yield counter_slice(f"card-{on}", {"card": {"units": 5}}, **where)
        parts = [
            device(f"p-{at}", {"kind": "part"}, draws={"card": {"units": 1 + at % 3}}) for at in range(4)
        ]
        yield resource_slice(f"parts-{on}", parts, **where)
        where = {"pool": f"link-{on}", "slices": 2, "nodeName": on}
        yield counter_slice(f"link-{on}", {"link": {"lanes": 9}}, **where)
        links = [device(f"l-{at}", {"kind": "link"}, draws={"link": {"lanes": 1}}) for at in range(3)]
        for at, one in enumerate(links):
            one["consumesCounters"][0]["compatibilityGroups"] = ["a"] if at % 2 else ["b"]
        yield resource_slice(f"links-{on}", links, **where)
    shared = [device("s", {"kind": "shared"}, {"mem": "2Gi"}, allowMultipleAllocations=True)]
    yield resource_slice("shared", shared, pool="shared", allNodes=True)
    yield zonal(2, "1")


def zonal(number: int, zone: str) -> Object:
    made = [device(f"z-{at}", {"kind": "zonal"}) for at in range(number)]
    return resource_slice("zonal", made, pool="zonal", nodeSelector=node_selector(labelled("zone", zone)))


class World:
    """A store with a past, and what is there now."""

    def __init__(self, rules: Semantics, specs: Sequence[Object]) -> None:
        self.rules, self.specs = rules, specs
        self.store = Store(rules)
        self.decider = Decider(Ownership(alone=True), steps=1000)
        self.objects: dict[tuple[str, ObjectKey], ApiObject] = {}
        self.plans: list[Plan] = []
        self.work: Assembly | None = None
        self.kept: list[tuple[Snapshot, object]] = []
        self.compares = True
        self._numbers = count(1)
        for raw in beginning():
            self.put(raw)

    def put(self, raw: Object) -> None:
        self.apply(Changed(raw["kind"], typed(raw)))

    def apply(self, change: Change) -> None:
        self.store.apply(change)
        match change:
            case Changed(kind=kind, object=thing):
                self.objects[kind, thing.key] = thing
            case Removed(kind=kind, key=key):
                self.objects.pop((kind, key), None)

    def afresh(self) -> Store:
        """A store with the same content that has seen nothing else."""
        made = Store(self.rules)
        for (kind, _), thing in self.objects.items():
            made.apply(Changed(kind, thing))
        for plan in self.store.assumptions:
            made.assume(plan)
        for one in self.store.nominations:
            made.nominate(one)
        return made

    def ask(self, spec: Object, how: int, own: int) -> None:
        """Decide one more claim, and write it, assume it only, or drop it."""
        name = f"c{next(self._numbers)}"
        made = typed({**spec, "metadata": {**spec["metadata"], "name": name, "uid": name}})
        assert isinstance(made, ResourceClaim)
        nominations = list(self.store.nominations)
        nominee = frozenset([nominations[own % len(nominations)].nominee]) if own and nominations else NOBODY
        seen = self.store.snapshot_for(nominee)
        question = Decide((made,), some(seen, how), own=nominee)
        known = self.decider.refuses(question, seen)
        found = self.decider.answer(question, seen)
        if self.compares:
            afresh = self.afresh().snapshot_for(nominee)
            assert told(seen) == told(afresh)
            alone = Decider(Ownership(alone=True), steps=1000).answer(
                Decide((made,), some(afresh, how), own=nominee), afresh
            )
            assert said(found) == said(alone)
            assert known is None or isinstance(alone, Refusal)
        if how % 8 < 2 or not isinstance(found, Granted):
            return
        self.store.assume(found.plans[0])
        self.plans.append(found.plans[0])
        self.apply(Changed("ResourceClaim", made))
        if how % 8 < 5:
            status = made.status.model_copy(update={"allocation": found.plans[0].allocation})
            self.apply(Changed("ResourceClaim", made.model_copy(update={"status": status})))

    def release(self, at: int) -> None:
        if self.plans:
            plan = self.plans.pop(at % len(self.plans))
            self.store.forget(plan)
            self.apply(Removed("ResourceClaim", plan.claim))

    def nominate(self, number: int, row: int) -> None:
        fleet = self.store.snapshot().fleet
        rows = {row % fleet.size, row * 7 % fleet.size} if row % 3 else {row % fleet.size}
        devices = tuple(fleet.id_of(one) for one in sorted(rows))
        who = of_claim(ObjectKey("default", f"w{number % 2}"))
        self.store.nominate(Nomination(who, (HeldPlace("n1", devices),), 0, 10.0, "2026-01-01T12:00:00Z"))

    def end(self, number: int) -> None:
        self.store.end_nomination(of_claim(ObjectKey("default", f"w{number % 2}")))

    def ahead(self, steps: int) -> None:
        """Build some pools; the fleet of all of them is joined aside from then on."""
        while steps and self.store.supply.inventory.build_ahead(1):
            steps -= 1
        self.work = self.store.supply.assembly() or self.work

    def adopt(self) -> None:
        if self.work is not None:
            self.store.adopt(self.work.run())
            self.work = None

    def keep(self) -> None:
        seen = self.store.snapshot_for(NOBODY)
        self.kept.append((seen, told(seen)))


def some(seen: Snapshot, how: int) -> NodeSubset | None:
    """The nodes that a question allows."""
    if how % 3:
        return None
    order = seen.topology.order
    return NodeSubset(order, np.array([name != NODES[how % 2] for name in order], dtype=np.bool_))


def told(seen: Snapshot) -> object:
    """Every device with what matters of it, and what nodes offer."""
    fleet, at = seen.fleet, places(seen.fleet)
    kinds = [compile_selector(KIND.format(kind)).masks(fleet.cel).true for kind in ("gpu", "zonal")]
    taints = [*fleet.vocabulary.taints.values, ()]
    devices = {
        place: (
            bool(seen.occupancy.free[row]),
            bool(fleet.shared[row]),
            [taint.key for taint in taints[fleet.codes["taints"][row]]],
            [bool(kind[row]) for kind in kinds],
        )
        for row, place in enumerate(at)
    }
    return devices, {name: offered(seen.topology.view(name), at) for name in seen.topology.order}


def said(answer: Granted | Refusal) -> object:
    """An answer without what is drawn at random."""
    if isinstance(answer, Refusal):
        return answer.reason
    (plan,) = answer.plans
    raw = plan.allocation.model_dump(mode="json")
    for result in raw["devices"]["results"]:
        result.pop("share_id", None)
        result.pop("shareID", None)
    return plan.node, raw


def happen(world: World, what: str, first: int, second: int) -> None:
    on = NODES[first % 2]
    match what:
        case "ask":
            world.ask(world.specs[first % 2], second, 0)
        case "ask again":
            while len(world.plans) > 4:  # else nothing is left to give
                world.release(first)
            for number in range(6):
                world.compares = number in (3, 5)
                world.ask(world.specs[first % 2], 7, second % 5 == 4)
        case "ask own":
            world.ask(world.specs[first % 2], second, 1 + first)
        case "slice":
            world.put(gpus(on, GPUS - (second % 7 == 6), second))
        case "zonal":
            world.put(zonal(2 - (first % 5 == 4), str(1 + second % 2)))
        case "no slice":
            world.apply(Removed("ResourceSlice", ObjectKey("", f"gpus-{on}")))
        case "node":
            world.put(node(on, zone=str(1 + second % 2)))
        case "new node":
            name = f"m{first % 2}"
            world.put(node(name))
            world.put(gpus(name, 2, second))
        case "rule" if second % 2:
            world.put(taint_rule("r", {"driver": "d", "device": "gpu-0"}, taint("rule")))
        case "rule":
            world.apply(Removed("DeviceTaintRule", ObjectKey("", "r")))
        case "class":
            world.put(device_class("any", *([KIND.format("gpu")] if second % 2 else [])))
        case "release":
            world.release(first)
        case "nominate":
            world.nominate(first, second)
        case "end":
            world.end(first)
        case "ahead":
            world.ahead(50 if second % 3 else 2)
        case "aside":
            happen(world, "slice", second, first)
            world.ahead(50)
            happen(world, MEANWHILE[first % len(MEANWHILE)], second, first)
            world.adopt()
        case "adopt":
            world.adopt()
        case "keep":
            world.keep()


MEANWHILE = ("slice", "zonal", "no slice", "node", "new node", "rule", "class", "release", "end", "ahead")
"""What may happen while a fleet is joined, without a look at the store"""
CALM = ("ask again",) * 8 + ("release",) * 2 + ("ask", "ask own", "nominate", "nominate", "end", "keep")
WILD = (*CALM, *MEANWHILE, "aside", "aside", "aside", "slice", "adopt")
STEPS = 30


@pytest.fixture(autouse=True)
def _little_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fleets of few pools are joined aside."""
    monkeypatch.setattr(inventory, "MANY_POOLS", 1)


@pytest.mark.parametrize("rules", [Semantics(), Semantics("1.36")])
@pytest.mark.parametrize("seed", range(7 * FACTOR))
def test_every_answer_is_that_of_a_store_filled_just_now(seed: int, rules: Semantics):
    """A world is asked two things only, so that they repeat. In every third, slices and nodes stay."""
    dice = Random(seed)
    world = World(rules, [dice.choice(SPECS[:3]), dice.choice(SPECS)])
    for _ in range(STEPS):
        what = dice.choice(WILD if seed % 3 else CALM)
        happen(world, what, dice.randrange(99), dice.randrange(99))
    for seen, then in world.kept:
        assert told(seen) == then, "a snapshot changed after it was taken"
