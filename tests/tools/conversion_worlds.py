"""Pools in every shape, random and small, and the same decisions before and after they are converted."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.api.convert.objects import Converted, converted
from reconciler.api.objects.plan import Granted, Unsatisfied
from reconciler.api.objects.semantics import NEWEST_MINOR
from reconciler.api.versions.reading import read, to_v1
from tests.tools.allocation_world import World, decide
from tests.tools.builders import (
    Object,
    claim,
    device,
    device_class,
    distinct,
    held,
    hold,
    match,
    request,
    resource_slice,
    selectors,
    version,
)

DRIVER = "gpu.nvidia.com"
ANY = device_class("any")


def nothing_against(_obj: Object) -> list[str]:
    return []


def conversion(*raws: Object, release: int = NEWEST_MINOR) -> Converted:
    """Objects of any shape, converted without asking a server."""
    return converted([to_v1(raw) for raw in raws], nothing_against, release=release)


def slices_of(result: Converted) -> list[Object]:
    return [made for made in result.objects if made["kind"] == "ResourceSlice"]


def pool_of(seed: int) -> list[Object]:
    """The slices of a pool: a tree, counters beside devices, or more counters and sets than the API takes."""
    rng = random.Random(seed)
    shape = (_tree, _beside, _wide, _deep, _exclusive)[seed % 5]
    count = 1 + seed // 5 % 3
    made = []
    for at in range(count):
        raw = shape(rng, f"{at}.x" if rng.random() < 0.5 else str(at))
        raw["metadata"]["name"] = f"s{'-' * at}{at}" if at else "s"
        raw["spec"]["pool"]["resourceSliceCount"] = count
        made.append(raw)
    return made


def _slice(**content: Any) -> Object:
    made = resource_slice("s", driver=DRIVER, nodeName="n")
    del made["spec"]["devices"]
    made["spec"] |= content
    return made


def _attributes(rng: random.Random, name: str) -> Object:
    return {"id": {"string": name}, "half": {"int": rng.randint(0, 1)}, "driver": version("1.2.3")}


def _tree(rng: random.Random, tag: str) -> Object:
    """Composite devices in a tree, names with dots, capacities with hyphens."""
    names = [f"d{tag}-{number}" for number in range(rng.randint(2, 7))]
    devices = []
    for at, name in enumerate(names):
        body: Object = {"attributes": _attributes(rng, name)}
        room = 4 if at == 0 else 2
        body["capacity"] = {
            key: {"quantity": str(rng.randint(0, room))}
            for key in ("memory", "copy-engines", "memorySlice0")
            if rng.random() < 0.8
        }
        if at:
            body["consumesCapacityFrom"] = [{"name": rng.choice(names[:at])}]
        devices.append({"name": name, "composite": body})
    rng.shuffle(devices)
    return {**_slice(devices=devices), "apiVersion": "resource.k8s.io/v1alpha3"}


def _beside(rng: random.Random, tag: str) -> Object:
    """Counters beside devices, as of Kubernetes 1.33."""
    sets = {f"set{tag}-{number}": rng.randint(1, 3) for number in range(rng.randint(1, 3))}
    devices = [
        _drawing(rng, f"d{tag}-{number}", {name: ["memory"] for name in rng.sample(sorted(sets), 1)})
        for number in range(rng.randint(1, 6))
    ]
    counters = [{"name": name, "counters": {"memory": {"value": str(total)}}} for name, total in sets.items()]
    return _slice(devices=devices, sharedCounters=counters)


def _wide(rng: random.Random, tag: str) -> Object:
    """One set of more counters than a set of the API may have."""
    names = [f"c{number}" for number in range(rng.randint(33, 60))]
    few = [rng.sample(names, 5) for _ in range(rng.randint(2, 6))]
    devices = [_drawing(rng, f"d{tag}-{at}", {f"set{tag}": some}) for at, some in enumerate(few)]
    totals = {name: {"value": str(rng.randint(1, 2))} for name in names}
    return _slice(devices=devices, sharedCounters=[{"name": f"set{tag}", "counters": totals}])


def _deep(rng: random.Random, tag: str) -> Object:
    """Devices that draw from three or four sets, where the API allows two."""
    names = [f"set{tag}-{number}" for number in range(4)]
    devices = [
        _drawing(rng, f"d{tag}-{number}", {name: ["memory"] for name in rng.sample(names, rng.randint(1, 4))})
        for number in range(rng.randint(2, 6))
    ]
    sets = [{"name": name, "counters": {"memory": {"value": str(rng.randint(1, 3))}}} for name in names]
    return _slice(devices=devices, sharedCounters=sets)


def _exclusive(rng: random.Random, tag: str) -> Object:
    """Devices in groups, or that say beside which others they can be held."""
    raw = _beside(rng, tag)
    for found in raw["spec"]["devices"]:
        if rng.random() < 0.5:
            found["consumesCounters"][0]["compatibilityGroups"] = rng.sample(["a", "b", "c"], 2)
        elif rng.random() < 0.5:
            half = rng.randint(0, 1)
            found["compatibleOnlyWith"] = {"expression": f'device.attributes["{DRIVER}"].half == {half}'}
    return raw


def _drawing(rng: random.Random, name: str, sets: Mapping[str, Sequence[str]]) -> Object:
    draws = {one: {key: rng.randint(0, 2) for key in keys} for one, keys in sets.items()}
    return device(name, _attributes(rng, name), {"memory": "1"}, draws)


def some_claim(rng: random.Random) -> Object:
    """A claim that names nothing that is renamed."""
    count = rng.randint(1, 2)
    requests = []
    for number in range(count):
        half = selectors(f'device.attributes["{DRIVER}"].half == {rng.randint(0, 1)}')
        wanted = rng.choice([1, 1, 1, 2, 3, None])
        requests.append(request(f"r{number}", wanted, **({"selectors": half} if rng.random() < 0.5 else {})))
    constraints = []
    if rng.random() < 0.3:
        constraints = [rng.choice([match, distinct])(f"{DRIVER}/half")]
    return claim("c", *requests, constraints=constraints)


def devices_given(slices: Sequence[Object], wanted: Object, taken: Sequence[str]) -> list[str] | str:
    """The devices of a claim in order, or the reason why it gets none."""
    holders = [held(f"by-{one}", hold(one, driver=DRIVER)) for one in taken]
    outcome = decide(World(slices, [wanted], holders, [ANY]))
    if isinstance(outcome, Granted):
        return [result.device for plan in outcome.plans for result in plan.allocation.devices.results]
    assert isinstance(outcome, Unsatisfied)
    return str(outcome.reason)


def device_map(result: Converted) -> dict[str, str]:
    return {rename.before: rename.after for rename in result.renames if rename.kind == "device"}


def readable(slices: Sequence[Object]) -> list[Object]:
    for raw in slices:
        read(raw)
    return [dict(to_v1(raw)) for raw in slices]
