"""Turns chosen devices into the allocations of claims. Source: docs/reference/rules/results.md."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any
from uuid import uuid4

import numpy as np

from kernels.types import Mask, Rows
from reconciler.allocation.dra.budget import Fatal
from reconciler.allocation.dra.consumption import consumed_counters
from reconciler.allocation.dra.request_options import ParsedClaims, RequestOption
from reconciler.allocation.dra.state import Choice
from reconciler.api.objects.claims import (
    AllocatedConfig,
    AllocatedDevice,
    Allocation,
    DeviceAllocation,
    ResourceClaim,
)
from reconciler.api.objects.plan import LaterPlan, Plan, Reason
from reconciler.api.objects.selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from reconciler.api.objects.semantics import SHARED_CAPACITY
from reconciler.state.caches import Cache, derived
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.snapshot import Snapshot, View


def random_share() -> str:
    """A fresh share id (CAP-10)."""
    return str(uuid4())


def plans(
    parsed: ParsedClaims,
    view: View,
    snapshot: Snapshot,
    chosen: Sequence[Choice],
) -> tuple[Plan, ...]:
    """One plan for each claim, in order. Raises Fatal for a device that a result cannot express (RES-13)."""
    found = []
    for at, claim in enumerate(parsed.claims):
        choices = [choice for choice in chosen if choice.candidates.option.claim == at]
        found.append(_plan(claim, view, snapshot, choices))
    return tuple(found)


def _plan(claim: ResourceClaim, view: View, snapshot: Snapshot, choices: Sequence[Choice]) -> Plan:
    fleet, rows = snapshot.fleet, [view.row(choice.at) for choice in choices]
    options = [choice.candidates.option for choice in choices]
    local = bool(rows) and bool((fleet.codes["node"][rows] >= 0).all())
    if local and not has_special_fields(fleet, rows) and not any(one.admin for one in options):
        return PlainPlans(claim, options, snapshot).plan(claim, view, [[row] for row in rows])
    return Plan(
        claim=claim.key,
        uid=claim.metadata.uid,
        resource_version=claim.metadata.resource_version,
        node=view.node.name,
        allocation=_allocation(
            _devices(view, snapshot, choices),
            _configs(claim, options, old=snapshot.rules.old),
            _node_selector(view, rows),
        ),
    )


class PlainPlans:
    """Plans for claims of equal specs, of devices that have no special fields."""

    def __init__(self, claim: ResourceClaim, options: Sequence[RequestOption], snapshot: Snapshot) -> None:
        """`options` are what the results are for, in order."""
        self._fields = [_fields_of(option) for option in options]
        self._configs = _configs(claim, options, old=snapshot.rules.old)

    def plan(
        self, claim: ResourceClaim, view: View, rows: Sequence[Sequence[int]], *, local: bool = True
    ) -> Plan:
        """The plan of one claim. If all devices belong to the node (`local`), the allocation is made when it
        is read, as late as when it is written. Raises Fatal for what a result cannot express (RES-13).

        rows  of each option: the rows of the fleet that it gets
        """
        key, metadata, node = claim.key, claim.metadata, view.node.name
        if not local:
            selector = _node_selector(view, chain.from_iterable(rows))
            allocation = self._allocation(view, rows, selector)
            return Plan(key, metadata.uid, metadata.resource_version, node, allocation)
        devices = tuple([view.fleet.id_of(row) for row in chain.from_iterable(rows)])
        make, selector = self._allocation, pinned_to_node(view)
        return LaterPlan.of(
            key, metadata.uid, metadata.resource_version, node, devices, make, view, rows, selector
        )

    def _allocation(
        self, view: View, rows: Sequence[Sequence[int]], selector: NodeSelector | None
    ) -> Allocation:
        results: list[AllocatedDevice] = []
        for fields, of_option in zip(self._fields, rows, strict=True):
            results += [AllocatedDevice(**fields, **_names(row, view.fleet)) for row in of_option]
        return _allocation(results, self._configs, selector)


def has_special_fields(fleet: Fleet, rows: Rows | Sequence[int] | slice) -> bool:
    """Whether the result of some device has more fields than names."""
    marked = _special(fleet)
    return marked is not None and bool(marked[rows].any())


def _allocation(
    results: Sequence[AllocatedDevice], configs: Sequence[AllocatedConfig], selector: NodeSelector | None
) -> Allocation:
    """The allocation with the fields that are set: unset fields are not written."""
    config: dict[str, Any] = {"config": tuple(configs)} if configs else {}
    selected: dict[str, Any] = {"node_selector": selector} if selector is not None else {}
    return Allocation(devices=DeviceAllocation(results=tuple(results), **config), **selected)


def _devices(view: View, snapshot: Snapshot, choices: Sequence[Choice]) -> list[AllocatedDevice]:
    """The results."""
    fleet, found = snapshot.fleet, []
    marked = _special(fleet)
    candidates, common = None, dict[str, Any]()
    for choice in choices:
        if choice.candidates is not candidates:
            candidates = choice.candidates
            common = _fields_of(candidates.option)
        row = view.row(choice.at)
        fields = {**common, **_names(row, fleet)}
        if marked is not None and marked.item(row):
            fields |= _special_fields(choice, row, snapshot)
        found.append(AllocatedDevice(**fields))
    return found


def _fields_of(option: RequestOption) -> dict[str, Any]:
    """The fields that the results for a request option share."""
    fields: dict[str, Any] = {"request": option.name}
    if option.admin:
        fields["admin_access"] = True
    if option.source.tolerations:
        fields["tolerations"] = option.source.tolerations
    return fields


def _names(row: int, fleet: Fleet) -> dict[str, Any]:
    """The fields that name a device."""
    at = fleet.pool_of.item(row)
    pool = fleet.pools[at]
    driver, name = pool.id
    return {"driver": driver, "pool": name, "device": pool.names[row - fleet.start.item(at)]}


def _special_fields(choice: Choice, row: int, snapshot: Snapshot) -> dict[str, Any]:
    """The fields of a result that only some devices have."""
    fleet = snapshot.fleet
    fields: dict[str, Any] = {}
    binding = int(fleet.codes["binding"][row])
    if binding >= 0 and snapshot.rules.binding_conditions:
        words = fleet.vocabulary.bindings.values[binding]
        if words.conditions:
            fields["binding_conditions"] = words.conditions
        if words.failures:
            fields["binding_failure_conditions"] = words.failures
    if fleet.shared[row] and snapshot.rules.sharing:
        fields["share_id"] = random_share()
        amounts = choice.candidates.takes(choice.at)
        if amounts is not None:
            fields["consumed_capacity"] = dict(amounts.taken)
    if snapshot.rules.has(SHARED_CAPACITY) and _asked_together(fleet)[row]:
        requested = choice.candidates.option.capacity
        fields["consumed_counters"] = consumed_counters(requested, row, snapshot)
    operations = int(fleet.codes["operations"][row])
    if operations >= 0:
        fields["skip_node_operations"] = fleet.vocabulary.operations.values[operations]
    return fields


@derived
def _special(fleet: Fleet) -> Mask | None:
    """(D,) devices whose results have more fields than names; None if there are none."""
    found: Mask = fleet.shared
    for name, words in (("binding", fleet.vocabulary.bindings), ("operations", fleet.vocabulary.operations)):
        if words.values:
            found = found | (fleet.codes[name] >= 0)
    if fleet.vocabulary.asked.values:
        found = found | _asked_together(fleet)
    return found if found.any() else None


@derived
def _asked_together(fleet: Fleet) -> Mask:
    """(D,) devices that draw from a counter set of which requests say how much some device draws."""
    asked = np.zeros(len(fleet.totals) + 1, dtype=np.bool_)
    asked[fleet.sets[fleet.codes["asked"] >= 0]] = True
    asked[-1] = False  # -1 stands for no set
    found: Mask = np.any(asked[fleet.sets], axis=1)
    return found


def _configs(claim: ResourceClaim, used: Sequence[RequestOption], *, old: bool) -> list[AllocatedConfig]:
    """Class part first, then claim part (RES-8 to RES-10)."""
    if not claim.spec.devices.config and not any(option.device_class.spec.config for option in used):
        return []
    options = list({option.name: option for option in used}.values())
    of_class: dict[str, list[str]] = {}
    classes = {}
    for option in options:
        of_class.setdefault(option.device_class.key.name, []).append(option.name)
        classes[option.device_class.key.name] = option.device_class
    every = {option.name for option in options}

    def entry(source: str, requests: Sequence[str], opaque: object, covers: bool) -> AllocatedConfig:
        fields: dict[str, Any] = {"source": source, "opaque": opaque}
        if requests and not (covers and not old):
            fields["requests"] = tuple(requests)
        return AllocatedConfig(**fields)

    configs = [
        entry("FromClass", names, config.opaque, every <= set(names))
        for name, names in of_class.items()
        for config in classes[name].spec.config
    ]
    for config in claim.spec.devices.config:
        named = [
            option
            for option in options
            if option.request in config.requests or option.name in config.requests
        ]
        copies = 1 if not config.requests else len(named) if old else min(len(named), 1)
        configs += [entry("FromClaim", config.requests, config.opaque, len(named) == len(options))] * copies
    return configs


def _node_selector(view: View, rows: Iterable[int]) -> NodeSelector | None:
    """The nodes that reach all the devices (RES-12)."""
    fleet = view.fleet
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for row in rows:
        if fleet.codes["node"].item(row) >= 0 or fleet.binds.item(row):
            return pinned_to_node(view)
        code = fleet.codes["selector"].item(row)
        if code < 0:
            continue
        terms = fleet.vocabulary.selectors.values[code].node_selector_terms
        if len(terms) > 1:
            raise Fatal(
                Reason.NODE_SELECTOR,
                f"device {fleet.id_of(row)}: its node selector has {len(terms)} terms; a claim can carry one",
            )
        for term in terms:
            _merge(fields, term.match_fields)
            _merge(expressions, term.match_expressions)
    if not fields and not expressions:
        return None
    parts: dict[str, Any] = {}
    if fields:
        parts["match_fields"] = tuple(fields)
    if expressions:
        parts["match_expressions"] = tuple(expressions)
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(**parts),))


def _merge(into: list[NodeSelectorRequirement], new: Sequence[NodeSelectorRequirement]) -> None:
    for requirement in new:
        if not any(
            r.key == requirement.key
            and r.operator == requirement.operator
            and set(r.values) == set(requirement.values)
            for r in into
        ):
            into.append(requirement)


@Cache
def pinned_to_node(view: View) -> NodeSelector:
    """Selects the node by its name. Cached: most allocations on a node share it."""
    requirement = NodeSelectorRequirement(key="metadata.name", operator="In", values=(view.node.name,))
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(requirement,)),))
