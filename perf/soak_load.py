"""What a soak asks for: fleets, pods and gangs that come and go, and a count of what became of them.

Reads nothing of the reconciler: what is given twice, or evicted against a budget, is judged by the server.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from random import Random
from typing import Any

from msgspec import Struct

from perf.fleets import gpus, koordinator, mig
from perf.fleets.objects import Json, claim, device_class, exactly, node, pool
from reconciler.api.objects.quantity import Quantity
from reconciler.api.validation.served_kinds import BUDGET, CLAIM, POD, POD_GROUP, SLICE
from reconciler.embedded import ApiServer
from tests.tools.gangs import grouped, pod_group
from tests.tools.koordinator_cluster import machine, wants
from tests.tools.small_fleet import pod

SCARCE = "scarce.example.com"
"""A driver with few devices, for which pods of the class `high` evict others"""
GUARDED, UNGUARDED = {"app": "guarded"}, {"app": "scarce"}
"""Labels of pods of which a budget allows none to go, and of those of which it allows a few"""
ALLOWED = 2
"""Evictions that the budget of the others allows between two looks"""
KINDS = {"mig": 12, "gpu": 8, "gang": 4, "koordinator": 4, "scarce": 4, "urgent": 1}
"""Kinds of units, and how often each comes. Few are urgent: they must find others to evict"""
URGENT_UNITS = 20
"""After so many units more an urgent one goes"""
BEGAN = "2026-01-01T00:00:00Z"
"""When pods that may be evicted began to run: of young ones none is"""
GANG = 4


def _budget(name: str, labels: Json, allowed: int) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "maxUnavailable": allowed},
        "status": {
            "disruptionsAllowed": allowed,
            "currentHealthy": 9,
            "desiredHealthy": 9 - allowed,
            "expectedPods": 9,
            "observedGeneration": 1,
        },
    }


class Books(Struct):
    """Devices and counters of the slices, to see what is given twice. Reads nothing of the reconciler."""

    draws: dict[tuple[str, str, str], list[tuple[str, Json]]] = {}
    sizes: dict[tuple[str, str, str, str], int] = {}

    def read(self, spec: Json) -> None:
        """A slice."""
        driver, name = spec["driver"], spec["pool"]["name"]
        for one in spec.get("devices", ()):
            consumed = [(part["counterSet"], part["counters"]) for part in one.get("consumesCounters", ())]
            self.draws[driver, name, one["name"]] = consumed
        for one in spec.get("sharedCounters", ()):
            for counter, amount in one["counters"].items():
                self.sizes[driver, name, one["name"], counter] = Quantity.parse(amount["value"]).nanos

    def wrong(self, claims: Iterator[Json]) -> Iterator[str]:
        """What is held twice, or more of than there is."""
        held: Counter[tuple[str, str, str]] = Counter()
        drawn: Counter[tuple[str, str, str, str]] = Counter()
        for one in claims:
            for result in one.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ()):
                device = (result["driver"], result["pool"], result["device"])
                held[device] += 1
                for counters, amounts in self.draws[device]:
                    for counter, amount in amounts.items():
                        drawn[*device[:2], counters, counter] += Quantity.parse(amount["value"]).nanos
        yield from (f"{device} is held {times} times" for device, times in held.items() if times > 1)
        yield from (
            f"{of}: {much} of {self.sizes[of]}" for of, much in drawn.items() if much > self.sizes[of]
        )


class Load:
    """The objects of a soak on its server."""

    def __init__(self, api: ApiServer, random: Random, units: int, *, koordinator: bool) -> None:
        """`units` are there at once; beyond that the oldest goes."""
        self._api, self._random, self._units = api, random, units
        self._kinds = {kind: often for kind, often in KINDS.items() if koordinator or kind != "koordinator"}
        self._books = Books()
        self._living: deque[list[str]] = deque()
        self._urgent: deque[tuple[int, str]] = deque()
        self._scarce: dict[str, bool] = {}
        """Pods that might be evicted, and whether a budget forbids it"""
        self.made: Counter[str] = Counter()
        self.ran: defaultdict[str, set[str]] = defaultdict(set)
        """Names of the pods that were seen to run, by kind"""
        self.evicted = 0

    def fleets(self, nodes: int, whole: int) -> None:
        """The fleets and templates. Names of nodes differ between them."""
        self._api.load(mig.fleet(nodes))
        self._api.load([device_class(gpus.CLASS, f"device.driver == '{gpus.DRIVER}'")])
        self._api.load([device_class(SCARCE, f"device.driver == '{SCARCE}'")])
        for at in range(whole):
            self._api.load([node(f"whole-{at:04}"), *gpus.node_slices(f"whole-{at:04}")])
        for name in ("scarce-0", "scarce-1"):
            few = pool(SCARCE, name, [{"name": f"d{at}"} for at in range(8)], reach={"nodeName": name})
            self._api.load([node(name), *few])
        for name in ("koord-0", "koord-1", "koord-2") if "koordinator" in self._kinds else ():
            self._api.load([node(name), machine(name, *koordinator.devices(name))])
        for name, request in {
            **{profile: mig.partition("r", profile) for profile in mig.SHARE},
            **{f"gpu-{count}": exactly("r", gpus.CLASS, count=count) for count in (1, 2, 4, 8)},
            "scarce": exactly("r", SCARCE, count=2),
        }.items():
            made: Json = claim("t", [request])
            metadata = {"name": name.replace("+", "-"), "namespace": "default"}
            self._api.load([{"apiVersion": made["apiVersion"], "kind": "ResourceClaimTemplate",
                            "metadata": metadata, "spec": {"spec": made["spec"]}}])  # fmt: skip
        self._api.load([_budget("guarded", GUARDED, 0), _budget("scarce", UNGUARDED, ALLOWED)])
        for record in self._api.store[SLICE].scan(""):
            self._books.read(record.object["spec"])

    def create(self) -> None:
        """One more unit; those that are there for long go."""
        (kind,) = self._random.choices(list(self._kinds), list(self._kinds.values()))
        self.made[kind] += 1
        name = f"{kind}-{self.made[kind]}"
        names = [name]
        if kind == "gang":
            names = [f"{name}-{at}" for at in range(GANG)]
            self._api.load([pod_group(name, GANG)])
            self._api.load([grouped(one, group=name, templates=("gpu-1",)) for one in names])
        elif kind == "koordinator":
            self._api.load([wants(name, {"gpu": 50})])
        elif kind == "urgent":
            high: Json = {"priority": 1000, "priorityClassName": "high"}
            self._api.load([pod(name, templates=("scarce",), **high)])
            self._urgent.append((self.made.total() + URGENT_UNITS, name))
        elif kind == "scarce":
            self._scarce[name] = guarded = self._random.random() < 0.3
            self._api.load(
                [_began_long_ago(pod(name, templates=("scarce",)), GUARDED if guarded else UNGUARDED)]
            )
        else:
            (profile,) = self._random.choices(list(mig.SHARE), list(mig.SHARE.values()))
            template = (
                profile.replace("+", "-") if kind == "mig" else f"gpu-{self._random.choice((1, 1, 2, 4, 8))}"
            )
            self._api.load([pod(name, templates=(template,))])
        if kind != "urgent":
            self._living.append(names)
        while len(self._living) > self._units:
            self._delete(self._living.popleft())
        while self._urgent and self._urgent[0][0] <= self.made.total():
            self._delete([self._urgent.popleft()[1]])

    def _delete(self, names: list[str]) -> None:
        group = names[0].removesuffix("-0")
        if self._api.store[POD_GROUP].get(f"default/{group}") is not None:
            self._api.delete(POD_GROUP, "default", group)
        for name in names:
            self._scarce.pop(name, None)
            if self._pod(name) is not None:
                self._api.delete(POD, "default", name)

    def _pod(self, name: str) -> Any:
        return self._api.store[POD].get(f"default/{name}")

    def look(self) -> Iterator[str]:
        """What is wrong now. The budget allows evictions again."""
        yield from self._books.wrong(record.object for record in self._api.store[CLAIM].scan(""))
        for name, guarded in list(self._scarce.items()):
            if self._pod(name) is None:
                del self._scarce[name]
                self.evicted += 1
                if guarded:
                    yield f"pod {name} is gone, and its budget allows that for none"
        for record in self._api.store[POD].scan(""):
            if record.object.get("status", {}).get("phase") == "Running":
                name = record.object["metadata"]["name"]
                self.ran[name.partition("-")[0]].add(name)
        status = _budget("scarce", UNGUARDED, ALLOWED)["status"]
        self._api.update(
            BUDGET, "default", "scarce", lambda shown: {**shown, "status": status}, subresource="status"
        )

    def torn_gangs(self) -> Iterator[str]:
        """Gangs of which some pods have a node and others have none."""
        for names in self._living:
            there = [found.object for one in names if (found := self._pod(one)) is not None]
            bound = sum(bool(one["spec"].get("nodeName")) for one in there)
            if 0 < bound < len(there):
                yield f"{bound} of {len(there)} pods of {names} run"


def _began_long_ago(made: Json, labels: Json) -> Json:
    made["metadata"]["labels"] = labels
    return made | {"status": {"startTime": BEGAN}}
