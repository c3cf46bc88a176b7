"""Valid objects with newer fields, of which one part at a time is broken, and what must come of them.

`python -m tests.tools.mutations --first 0 --cases 10000` breaks each family of fields so often.
"""

import asyncio
import copy
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from random import Random
from typing import Any

import click

from reconciler.allocation.dra.allocate import allocate
from reconciler.api.manifests.bundle import bundle
from reconciler.api.manifests.documents import Document, Origin
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.plan import Granted, Unsatisfied
from reconciler.api.objects.semantics import GATES, Semantics
from reconciler.api.validation import served_kinds
from reconciler.api.validation.fields import WrongType
from reconciler.api.validation.kinds import Review
from reconciler.api.versions.reading import read
from reconciler.cel.refusals import REFUSES
from reconciler.cluster.client import Client
from reconciler.cluster.pod_writer import EvictionRequests
from reconciler.control.offline import decide
from reconciler.embedded import ApiServer
from reconciler.errors import Malformed, Retry
from reconciler.state.trial import store_of
from tests.tools.allocation_world import numbered
from tests.tools.builders import Object, claim, device, device_class, node, request, resource_slice
from tests.tools.driving import call
from tests.tools.fuzzed_parsers import handed_over
from tests.tools.mutation_families import FAMILIES, OF_PODS, REQUEST, Family
from tests.tools.simulation.memory import InMemory

RULES = Semantics(gates=frozenset(GATES))
KIND_OF = {
    "ResourceSlice": served_kinds.SLICE,
    "ResourceClaim": served_kinds.CLAIM,
    "DeviceClass": served_kinds.DEVICE_CLASS,
    "DeviceTaintRule": served_kinds.TAINT_RULE,
    "PodGroup": served_kinds.POD_GROUP,
    "CompositePodGroup": served_kinds.COMPOSITE_GROUP,
}
WHOLE = ("Pod", "EvictionRequest")
"""Kinds of which all of the object is broken, not only its spec"""


NAMES = ("default/c", "request r", "pool d/p", "d/p/a", "d/p/x")
"""One of these is in the message of a refusal"""
GOOD = (
    node("n", **{"kubernetes.io/hostname": "n"}),
    device_class("any", "device.driver != 'good'"),
    device_class("good", "device.driver == 'good'"),
    resource_slice("good", [device("g")], driver="good", pool="good", nodeName="n"),
)
"""What is not broken, with a claim that must get its device whatever else there is"""
JUNK: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 2**63, -(2**70), 10**40, 0.5, 1e308, "", "x", "d/x", "a b", "é", "\ud800", "\0"),
    *("-1", "1e400", "9" * 40, "1n", "0.0000000001", "Gi", "100Ei", "1G", "2G", "60G", "-5G", "0", "1500m"),
    *([], {}, [None], [[]], {"": ""}, {"a": None}, [1, "a"], {"value": "1"}, {"cel": {}}),
    {"expression": "1"},
    *("object", "object.x", "object.subnet + 1"),
    *("device.driver", "1 / 0", "[1, 'a']", "'a' * 9", "(((", "{}"),
    *("[].map(x, x)", "device.attributes['e'].f", "'x'.matches('[')", "dyn(1)", "[[1]]", "semver('1.0.0')"),
    *("[" + ", ".join(["1"] * 100) + "]", "x" * 11_000, "[1,2,3].map(x, [1,2,3].map(y, x * y))[0][0]"),
    *({"valueFrom": {"capacityName": "d/bandwidth"}}, {"mapping": {}}, {"overhead": {"perPod": "1"}}),
)
NEWER = r"nodeAllocatableResources|skipNodeOperations|derivedAttributes(\[\d+\]\.name)?$"
"""Fields for which manifests are refused as by a server"""
KEYS = (
    *("value", "valueFrom", "capacityName", "capacityKey", "requestPolicy"),
    *("default", "validRange", "min", "max", "step", "validValues"),
    *("mapping", "capacityMultiplier", "deviceMultiplier", "overhead", "perPod"),
    *("cel", "perContainer", "cpu", "memory", "hugepages-2Mi", "x.io/y"),
    *("name", "expression", "selector", "counterSet", "counters", "bandwidth"),
    *("opaque", "driver", "parameters", "requests", "kind", "subnet"),
    *("matchAttribute", "distinctAttribute", "", "é", "a" * 70, "d/bus"),
)


def mutated(family: Family, random: Random) -> tuple[Object, ...]:
    """The objects of a family, broken in one to three places."""
    objects = copy.deepcopy(family.objects)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        at, path = random.choice(family.fields)
        whole = family.objects[at]["kind"] in WHOLE or path[0] == "status"
        holder: Any = objects[at] if whole else objects[at]["spec"]
        with suppress(KeyError, IndexError, TypeError):  # broken before
            for step in path[:-1]:
                holder = holder[step]
            _break(holder, path[-1], random)
    return objects


def _break(holder: Any, step: Any, random: Random) -> None:
    """Break something below a place: go down some steps, then replace, drop, double or add."""
    while True:
        part = holder[step] if isinstance(holder, dict) and step in holder else None
        if isinstance(holder, list) and isinstance(step, int) and step < len(holder):
            part = holder[step]
        below: list[Any] = [*part] if isinstance(part, dict) else []
        below = [*range(len(part))] if isinstance(part, list) else below
        if not below or random.random() < 0.15:
            break
        holder, step = part, random.choice(below)
    if not isinstance(holder, dict | list):
        return
    match random.randrange(6):
        case 0 if isinstance(holder, dict):
            holder.pop(step, None)
        case 1 if isinstance(holder, dict):
            holder[random.choice(KEYS)] = copy.deepcopy(random.choice(JUNK))
        case 2 if isinstance(holder, list):
            holder.extend(copy.deepcopy(holder) * random.choice((1, 40)))
        case 3 if isinstance(holder, dict) and step in holder:
            holder[random.choice(KEYS)] = holder.pop(step)
        case _:
            if isinstance(holder, dict) or (isinstance(step, int) and step < len(holder)):
                holder[step] = copy.deepcopy(random.choice(JUNK))


def outcome(name: str, seed: int) -> str:
    """What became of the broken objects. Raises AssertionError if more than they got lost, or in silence."""
    objects = mutated(FAMILIES[name], Random(f"{name} {seed}"))
    there, causes = list(_read(objects)), list(_causes(objects))
    found_in_files = bundle([Document(Origin("test"), one) for one in copy.deepcopy(objects)], REFUSES)
    if any(re.search(NEWER, cause) for cause in causes):
        assert found_in_files.refused, causes
    state = store_of([*map(read, GOOD), *there], RULES)
    snapshot = state.snapshot()
    good = read(claim("good", request(deviceClassName="good")))
    wanted = next((one for one in there if isinstance(one, ResourceClaim) and one.key.name == "c"), None)
    assert isinstance(good, ResourceClaim)
    assert isinstance(allocate([good], snapshot), Granted), (
        "a claim that has nothing to do with it is refused"
    )
    if wanted is None:
        return "the claim is refused"
    found = numbered(allocate, [wanted], snapshot, steps=2000)
    if isinstance(found, Unsatisfied):
        assert any(name in found.message for name in NAMES), found.message
        return found.reason.value
    state.assume(found.plans[0])
    left = state.snapshot().occupancy.left
    assert (left >= 0).all() or (snapshot.occupancy.left < 0).any(), "more is given than there is"
    for use in (use for uses in snapshot.fleet.vocabulary.mapped.values for use in uses):
        assert min(use.times, use.per_pod, use.per_container) >= 0
    return "granted, but an API server refuses the objects" if causes else "granted"


def decided(objects: tuple[Object, ...]) -> str:
    """The same for manifests. Rules that are broken may taint all devices."""
    good = claim("good", request(deviceClassName="good", tolerations=[{"operator": "Exists"}]))
    checked = [*_read(objects), *_causes(objects)]
    assert checked
    found = bundle([Document(Origin("test"), one) for one in (*GOOD, good, *copy.deepcopy(objects))])
    report = decide(found, RULES, steps=2000)
    given = [plan.claim.name for granted in report.granted for plan in granted.plans]
    assert "good" in given, "a claim that has nothing to do with it is refused"
    devices = [
        one.id
        for granted in report.granted
        for plan in granted.plans
        for one in plan.allocation.devices.results
    ]
    assert len(devices) == len({*devices}), "a device is given twice"
    for answer in report.waiting:
        assert answer.reason, answer
        assert answer.message, answer
    return next((answer.reason for answer in report.waiting), f"{len(given)} granted")


def _read(objects: tuple[Object, ...]) -> Iterator[ApiObject]:
    """Those that can be read. Each other one is refused with its name, the field and a reason."""
    for raw in objects:
        refused: Malformed | None = None
        try:
            yield read(raw)
        except Malformed as exc:
            refused = exc
        if refused is not None:
            assert f"{raw['kind']} {raw['metadata'].get('namespace', '')}".strip() in refused.subject
            assert raw["metadata"]["name"] in refused.subject, refused.subject
            assert refused.field.startswith(("spec", "status")), refused
            assert refused.reason, refused


def _causes(objects: tuple[Object, ...]) -> Iterator[str]:
    """Why an API server refuses them: each cause has a field and a reason."""
    for raw in objects:
        kind = KIND_OF.get(raw["kind"])
        if kind is None:
            continue
        try:
            found = kind.validate(Review(copy.deepcopy(raw), None, kind.served[0], "", {}, refuses=REFUSES))
        except WrongType as wrong:
            yield str(wrong)
            continue
        for cause in found:
            assert cause.field.startswith("spec"), cause
            assert cause.message, cause
            yield cause.field


def asked(seed: int) -> str:
    """What becomes of a broken EvictionRequest on the server, and of its status with who asks again."""
    (broken,) = mutated(REQUEST, Random(f"evictionRequests {seed}"))
    path, api = "/apis/lifecycle.k8s.io/v1alpha1/namespaces/default/evictionrequests", ApiServer()
    status, answer = call(api, "POST", path, {**REQUEST.objects[0], "spec": broken.get("spec")})
    if status != 201:
        causes = answer["details"]["causes"] if status == 422 else [{"field": "spec", **answer}]
        assert status in (400, 422), answer
        assert all(one["field"].startswith("spec") and one["message"] for one in causes), answer
        return "refused"
    wrote, answer = call(api, "PUT", f"{path}/dra-reconciler-u/status", {**answer, **broken})
    assert wrote in (200, 400, 422), answer
    with suppress(Retry):  # half a surrogate, which is no JSON
        waits = asyncio.run(EvictionRequests(Client(InMemory(api))).ask(ObjectKey("default", "p"), "u"))
        return "waited for" if waits else "evicted at once"
    return "asked again"


ALONE: Mapping[str, Callable[[int], str]] = {"evictionRequests": asked, "handedOver": handed_over}
"""Neither claims nor pods that wait: each with a decision of its own"""


@click.command()
@click.option("--first", default=0, show_default=True)
@click.option("--cases", default=10_000, show_default=True)
def main(first: int, cases: int) -> None:
    """Break each family of fields so often."""
    seeds = range(first, first + cases)
    for name in FAMILIES:
        _tell(name, Counter(outcome(name, seed) for seed in seeds))
    for name, family in OF_PODS.items():
        _tell(name, Counter(decided(mutated(family, Random(f"{name} {seed}"))) for seed in seeds))
    for name, run in ALONE.items():
        _tell(name, Counter(map(run, seeds)))


def _tell(name: str, counts: Counter[str]) -> None:
    click.echo(f"{name}: " + ", ".join(f"{count} {what}" for what, count in counts.most_common()))


if __name__ == "__main__":
    main()
