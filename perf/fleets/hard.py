"""Hard questions: claims of one pod that nodes of partitioned GPUs can just serve, or just not.

Each GPU has partitions by places and a counter set of its own; some families add a counter set of the node.
The same seed gives the same questions.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from perf.fleets.objects import Json, claim, device_class, node

DRIVER = "gpu.example.com"
CLASS = "gpu"
LARGEST = 32
"""Devices that a claim may hold"""
Shapes = dict[str, tuple[int, list[tuple[int, int]]]]
A100: Shapes = {
    "1g": (1, [(place, 1) for place in range(7)]),
    "2g": (2, [(0, 2), (2, 2), (4, 2)]),
    "3g": (3, [(0, 4), (4, 4)]),
    "4g": (4, [(0, 4)]),
    "7g": (7, [(0, 8)]),
}
"""Partitions: name -> slices of the processor, and where its memory can begin and how much it takes"""
SMALL: Shapes = {"1g": (1, [(0, 1), (1, 1), (2, 1)]), "2g": (2, [(0, 2), (2, 2)]), "3g": (3, [(0, 4)])}
"""A GPU for which everything can be tried"""
FAMILIES = ("mig", "nested", "alternatives", "matched", "distinct", "mixed", "claims")
Option = tuple[str, int]
"""A partition, and how many"""


class Scale(NamedTuple):
    """How large questions are."""

    gpus: Sequence[int] = (4, 8, 8, 16, 32, 64)
    nodes: Sequence[int] = (1,)
    requests: tuple[int, int] = (3, 9)
    shapes: Shapes = A100
    mixed: bool = False
    """Whether nodes have different numbers of GPUs"""


class Question(NamedTuple):
    """One question, as manifests."""

    family: str
    gpus: int
    """Of the first node"""
    fleet: list[Json]
    """Nodes, class and slices"""
    held: list[Json]
    """Claims of others"""
    claims: list[Json]
    """What is asked for, together on one node"""

    @property
    def items(self) -> list[Json]:
        return [*self.fleet, *self.held, *self.claims]


def questions(
    seed: int, count: int, scale: Scale, held: float, families: Sequence[str] = FAMILIES
) -> Iterator[Question]:
    """So many questions, the families in turn. On `held` of the GPUs others hold partitions."""
    rnd = Random(seed)
    for number in range(count):
        yield question(rnd, families[number % len(families)], scale, held)


def question(rnd: Random, family: str, scale: Scale, held: float, claims: int = 1) -> Question:
    """One question of a family, with so many claims."""
    gpus, nodes = rnd.choice(scale.gpus), rnd.choice(scale.nodes)
    with_node_set = family in ("nested", "mixed", "claims")
    fleet: list[Json] = [device_class(CLASS, f'device.driver == "{DRIVER}"')]
    taken: list[Json] = []
    for number in range(nodes):
        name, here = f"n{number}", rnd.choice(scale.gpus) if scale.mixed and number else gpus
        power = rnd.randint(here * 3, here * 7) if with_node_set else None
        devices, sets = _devices(here, power, scale.shapes), _sets(here, power)
        fleet += [node(name), *_slices(name, devices, sets)]
        taken += [_held(name, one) for one in _holds(rnd, devices, sets, round(held * here))]
    while True:
        asked = [
            _claim(rnd, f"c{at}", family, gpus, scale) for at in range(2 if family == "claims" else claims)
        ]
        if all(least <= LARGEST for least, _ in asked):
            return Question(family, gpus, fleet, taken, [made for _, made in asked])


def _devices(gpus: int, power: int | None, shapes: Shapes) -> list[Json]:
    made: list[Json] = []
    for gpu in range(gpus):
        for shape, (slices, places) in shapes.items():
            for start, size in places:
                memory = {f"m{place}": {"value": "1"} for place in range(start, start + size)}
                draws = [
                    {"counterSet": f"gpu-{gpu}", "counters": {**memory, "slices": {"value": str(slices)}}}
                ]
                if power is not None:
                    draws.append({"counterSet": "node", "counters": {"power": {"value": str(slices)}}})
                where = {"gpu": gpu, "numa": gpu * 2 // gpus, "rail": gpu % 4}
                attributes = {"profile": {"string": shape}, **{key: {"int": at} for key, at in where.items()}}
                made.append(
                    {"name": f"g{gpu}-{shape}-{start}", "attributes": attributes, "consumesCounters": draws}
                )
    return made


def _sets(gpus: int, power: int | None) -> list[Json]:
    whole = {**{f"m{place}": {"value": "1"} for place in range(8)}, "slices": {"value": "7"}}
    sets: list[Json] = [{"name": f"gpu-{gpu}", "counters": whole} for gpu in range(gpus)]
    return sets if power is None else [*sets, {"name": "node", "counters": {"power": {"value": str(power)}}}]


def _slices(name: str, devices: list[Json], sets: list[Json]) -> Iterator[Json]:
    parts = [("sharedCounters", sets[at : at + 8]) for at in range(0, len(sets), 8)]
    parts += [("devices", devices[at : at + 64]) for at in range(0, len(devices), 64)]
    pool = {"name": name, "generation": 1, "resourceSliceCount": len(parts)}
    for number, (field, content) in enumerate(parts):
        spec = {"driver": DRIVER, "nodeName": name, "pool": pool, field: content}
        yield {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{name}-{number}"},
            "spec": spec,
        }


def _holds(rnd: Random, devices: list[Json], sets: list[Json], gpus: int) -> Iterator[Json]:
    """Partitions that fit together, at random, on so many GPUs."""
    left = {
        (one["name"], name): int(amount["value"]) for one in sets for name, amount in one["counters"].items()
    }
    chosen = set(rnd.sample(range(max(one["attributes"]["gpu"]["int"] for one in devices) + 1), gpus))
    for one in rnd.sample(devices, len(devices)):
        drawn = {
            (draw["counterSet"], name): int(amount["value"])
            for draw in one["consumesCounters"]
            for name, amount in draw["counters"].items()
        }
        if (
            one["attributes"]["gpu"]["int"] in chosen
            and rnd.random() < 0.5
            and all(left[key] >= amount for key, amount in drawn.items())
        ):
            for key, amount in drawn.items():
                left[key] -= amount
            yield one


def _held(name: str, device: Json) -> Json:
    made = claim(f"held-{name}-{device['name']}", [])
    result = {"request": "r", "driver": DRIVER, "pool": name, "device": device["name"]}
    made["spec"] = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": CLASS}}]}}
    made["status"] = {"allocation": {"devices": {"results": [result]}}}
    return made


def _claim(rnd: Random, name: str, family: str, gpus: int, scale: Scale) -> tuple[int, Json]:
    """The least devices that a claim needs, and the claim."""
    most = max(2, min(gpus, 16) // 2)
    requests: list[Json] = []
    least = 0
    fewest, largest = scale.requests
    for at in range(rnd.randint(fewest, largest) // (2 if family == "claims" else 1) or 1):
        many = family in ("alternatives", "mixed")
        weights = [3, 4, 4, 3, 1][: len(scale.shapes)]
        options = [
            (rnd.choices(list(scale.shapes), weights)[0], rnd.randint(1, most))
            for _ in range(rnd.randint(2, 3) if many else 1)
        ]
        least += min(count for _, count in options)
        requests.append(_request(f"r{at}", options))
    names = [one["name"] for one in requests]
    made = claim(name, requests)
    constraints = made["spec"]["devices"]["constraints"]
    if family in ("matched", "mixed", "claims"):
        wanted = range(rnd.randint(1, 3))
        constraints += [_constraint(rnd, "matchAttribute", ["numa", "rail", "gpu"], names) for _ in wanted]
    if family in ("distinct", "mixed", "claims"):
        wanted = range(rnd.randint(1, 2))
        constraints += [_constraint(rnd, "distinctAttribute", ["gpu", "gpu", "rail"], names) for _ in wanted]
    return least, made


def _request(name: str, options: Sequence[Option]) -> Json:
    asked = [
        {
            "deviceClassName": CLASS,
            "selectors": [{"cel": {"expression": f'device.attributes["{DRIVER}"].profile == "{shape}"'}}],
            "allocationMode": "ExactCount",
            "count": count,
        }
        for shape, count in options
    ]
    if len(asked) == 1:
        return {"name": name, "exactly": asked[0]}
    return {"name": name, "firstAvailable": [{"name": f"o{at}", **one} for at, one in enumerate(asked)]}


def _constraint(rnd: Random, kind: str, attributes: Sequence[str], names: Sequence[str]) -> Json:
    some = rnd.sample(names, min(rnd.randint(1, 3), len(names)))
    return {kind: f"{DRIVER}/{rnd.choice(attributes)}", "requests": some}
