"""Plays a scenario from a file: a fleet, claims, and the order in which they come and go.

`{deviceClasses, resourceSlices, nodes, claims, steps?}`, objects as the API spells them; kind and
apiVersion may be left out. A step is `{"allocate": NAME}` or `{"release": NAME}`, the name that of
a claim, with its namespace where one has one; without steps all claims are allocated in order.
"""

import json
import resource
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from msgspec.structs import replace

from perf.deciding import read_claim
from perf.fleets.objects import Json
from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.policies.policy import Policy
from reconciler.api.objects.changes import Changed, Removed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted, Unsatisfied
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from reconciler.errors import Malformed
from reconciler.state.devices.snapshot import Topology
from reconciler.state.store import Store
from reconciler.state.trial import load

SECTIONS = {
    "deviceClasses": ("DeviceClass", "resource.k8s.io/v1"),
    "resourceSlices": ("ResourceSlice", "resource.k8s.io/v1"),
    "nodes": ("Node", "v1"),
}
Progress = Callable[[int, int], None]


@dataclass(slots=True)
class Replayed:
    """What came of a scenario."""

    load_seconds: float
    """From the file's bytes to the first picture"""
    decided: list[float] = field(default_factory=list)
    """Seconds of each decision"""
    released: float = 0.0
    """Seconds of all releases"""
    granted: dict[str, Granted] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """Claim -> the reason against it"""
    devices: list[Json] = field(default_factory=list)
    """Everything given out, in that order; releases do not take it from here"""

    def to_json(self) -> Json:
        """The summary. Peak memory is that of the whole process."""
        seconds = sum(self.decided) + self.released
        p50, p99 = np.percentile(self.decided, [50, 99]) * 1e6 if self.decided else (0.0, 0.0)
        return {
            "allocated": len(self.decided) - len(self.failed),
            "failed": len(self.failed),
            "seconds": round(seconds, 6),
            "claims_per_second": round(len(self.decided) / seconds, 1) if seconds else 0.0,
            "p50_us": round(float(p50), 1),
            "p99_us": round(float(p99), 1),
            "load_seconds": round(self.load_seconds, 6),
            "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
            "devices": self.devices,
            "reasons": self.failed,
        }


def replay(
    path: Path, progress: Progress, *, by_name: bool = False, policy: Policy | None = None
) -> Replayed:
    """Play a scenario over the nodes as the file lists them, or by name; without a policy, by first fit.

    Raises Malformed.
    """
    began = perf_counter()
    scenario = _scenario(path)
    store = Store(Semantics())
    for section, (kind, version) in SECTIONS.items():
        raws = scenario.get(section, [])
        load(store, (read({"kind": kind, "apiVersion": version, **raw}) for raw in raws))
    claims = _claims(scenario.get("claims", []))
    load(store, claims.values())
    steps = scenario.get("steps", [{"allocate": name} for name, one in claims.items() if not one.allocation])
    topology = store.snapshot().topology
    if not by_name:
        listed = tuple(dict.fromkeys(raw["metadata"]["name"] for raw in scenario.get("nodes", [])))
        topology = Topology.of(topology.fleet, topology.nodes, topology.rules, order=listed)
    done = Replayed(perf_counter() - began)
    for number, step in enumerate(steps):
        action, claim = _step(step, number, claims)
        if action == "allocate":
            _allocate(store, claim, topology, done, policy)
        else:
            at = perf_counter()
            store.apply(Removed("ResourceClaim", claim.key))
            done.released += perf_counter() - at
            done.granted.pop(str(claim.key), None)
            store.apply(Changed("ResourceClaim", _without_allocation(claim)))
        progress(number + 1, len(steps))
    return done


def _allocate(
    store: Store, claim: ResourceClaim, topology: Topology, done: Replayed, policy: Policy | None
) -> None:
    name = str(claim.key)
    at = perf_counter()
    outcome = allocate([claim], replace(store.snapshot(), topology=topology), policy=policy)
    if isinstance(outcome, Granted):
        store.assume(outcome.plans[0])
    done.decided.append(perf_counter() - at)
    if isinstance(outcome, Unsatisfied):
        done.failed[name] = f"{outcome.reason}: {outcome.message}"
        return
    done.granted[name] = outcome
    done.devices += [
        {"claim": name, "node": outcome.node, **result.to_json()}
        for result in outcome.plans[0].allocation.devices.results
    ]


def _scenario(path: Path) -> Mapping[str, Any]:
    try:
        scenario = json.loads(path.read_bytes())
    except ValueError as exc:
        raise Malformed(str(path), "", f"is not JSON: {exc}") from exc
    if not isinstance(scenario, dict):
        raise Malformed(str(path), "", "must be an object")
    return scenario


def _claims(raws: Iterable[Json]) -> dict[str, ResourceClaim]:
    """Claims by key, each with a uid of its own."""
    claims = {}
    for raw in raws:
        claim = read_claim({"kind": "ResourceClaim", "apiVersion": "resource.k8s.io/v1", **raw})
        metadata = claim.metadata.model_copy(update={"uid": str(claim.key), "resource_version": ""})
        claims[str(claim.key)] = claim.model_copy(update={"metadata": metadata})
    return claims


def _step(step: Any, number: int, claims: Mapping[str, ResourceClaim]) -> tuple[str, ResourceClaim]:
    if not (isinstance(step, dict) and len(step) == 1 and next(iter(step)) in ("allocate", "release")):
        raise Malformed(f"steps[{number}]", "", 'must be {"allocate": CLAIM} or {"release": CLAIM}')
    ((action, name),) = step.items()
    if name in claims:
        return action, claims[name]
    named = [claim for claim in claims.values() if claim.metadata.name == name]
    if len(named) != 1:
        raise Malformed(f"steps[{number}]", action, f"{len(named)} claims are named {name!r}")
    return action, named[0]


def _without_allocation(claim: ResourceClaim) -> ResourceClaim:
    return claim.model_copy(update={"status": claim.status.model_copy(update={"allocation": None})})
