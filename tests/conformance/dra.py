"""Allocator cases: the same devices, configuration and node selector, or an error of the same class."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from reconciler.allocation.dra.budget import Fatal
from reconciler.allocation.dra.node_attempt import NodeGrant, attempt
from reconciler.allocation.dra.request_options import read_claims
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.quantity import Quantity
from reconciler.api.objects.semantics import Release
from reconciler.state.devices.snapshot import Snapshot
from tests.conformance.documents import Document
from tests.conformance.outcome import Mismatch, Outcome, judged
from tests.conformance.world import Case, claims, nodes, snapshot

STEPS = 1_000_000
"""Devices tried a node; no case is known to need a hundredth of it."""

Answer = list[Any] | str | None
"""Allocations in a form that compares, an error class, or None: they do not fit."""


def recognises(data: Mapping[str, Any]) -> bool:
    """Whether this is an allocator case."""
    return "claims" in data and "resourceSlices" in data


def run(found: Sequence[Document]) -> Iterator[Outcome]:
    """Every case, under the rules of the release that answered it."""
    for document in found:
        name = document.data.get("name") or document.place
        outcome = judged(name, partial(mismatch, document.data, "1.36"))
        disagree = outcome.mismatch is not None and _slices_disagree(document.data)
        yield Outcome(name, skipped=FIRST_DECIDES) if disagree else outcome


FIRST_DECIDES = "POOL-12: slices disagree about their number; in 1.36.2 the first by name decides"


def _slices_disagree(case: Case) -> bool:
    """Whether two slices of one pool and generation give different numbers of slices."""
    pools = [(one["spec"]["driver"], one["spec"]["pool"]) for one in case["resourceSlices"]]
    of = {(driver, pool["name"], pool.get("generation", 0)) for driver, pool in pools}
    return len(of) < len({(driver, *sorted(pool.items())) for driver, pool in pools})


def mismatch(case: Case, release: Release) -> Mismatch | None:
    """What was recorded and what a release's rules give, unless they agree."""
    expect = case["expect"] if isinstance(case["expect"], list) else [case["expect"]]
    wanted = [_recorded(entry, case) for entry in expect]
    got = answers(case, release)
    return None if got == wanted else Mismatch(wanted, got)


def answers(case: Case, release: Release) -> list[Answer]:
    """Our answer for each node of a case."""
    world, wanted = snapshot(case, release), claims(case)
    return [_answer(wanted, node["metadata"]["name"], world) for node in nodes(case)]


def _answer(wanted: Sequence[ResourceClaim], node: str, world: Snapshot) -> Answer:
    try:
        asked = read_claims(wanted, world.classes, world.rules)
    except Fatal as fatal:
        return str(fatal.reason)
    outcome = attempt(asked, node, world, steps=STEPS)
    if isinstance(outcome, NodeGrant):
        return [comparable(plan.allocation.to_json()) for plan in outcome.plans]
    return None if outcome.reason is None else str(outcome.reason)


def _recorded(expect: Mapping[str, Any], case: Case) -> Answer:
    if expect.get("errorClass"):
        return str(expect["errorClass"])
    if expect.get("allocations") is None:
        return None if case["claims"] else []
    return [comparable(allocation) for allocation in expect["allocations"]]


def comparable(allocation: Mapping[str, Any]) -> dict[str, Any]:
    """An AllocationResult without the order of requirements, the share ids and the spelling of amounts."""
    devices = allocation.get("devices") or {}
    return {
        "results": [_result(result) for result in devices.get("results") or ()],
        "config": list(devices.get("config") or ()),
        "nodeSelector": sorted(
            (_term(term) for term in (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or ()),
            key=json.dumps,
        ),
    }


def _result(result: Mapping[str, Any]) -> dict[str, Any]:
    made = {key: value for key, value in result.items() if value not in (None, [], {})}
    if "shareID" in made:
        made["shareID"] = "any"
    if "consumedCapacity" in made:
        made["consumedCapacity"] = {
            key: Quantity.parse(str(amount)).nanos for key, amount in made["consumedCapacity"].items()
        }
    return made


def _term(term: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {
        key: sorted(term.get(key) or (), key=lambda requirement: json.dumps(requirement, sort_keys=True))
        for key in ("matchExpressions", "matchFields")
    }
