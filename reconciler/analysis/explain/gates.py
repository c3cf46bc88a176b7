"""The gates between a request and a device, as masks over the fleet, and required alignments as gates."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct

from kernels.types import Amounts, Mask, Rows
from reconciler.allocation.alignment.preferences import NODE, Alignment, alignments, limit
from reconciler.allocation.dra.budget import Fatal
from reconciler.allocation.dra.candidates import capacity_permits, counters_permit, not_excluded
from reconciler.allocation.dra.constraints import Constraint, compile_constraint
from reconciler.allocation.dra.off_gates import disabled_features, disabled_for
from reconciler.allocation.dra.request_options import ParsedClaims, RequestOption, SelectorUse, Slot
from reconciler.allocation.dra.static_match import resolve, taints_permit
from reconciler.allocation.explanation import Kind
from reconciler.api.objects.semantics import COMPATIBILITY_GROUPS, PARTITIONABLE_DEVICES
from reconciler.cel.program import CelRefused, compile_selector
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.readiness import NodeReach, readiness
from reconciler.state.devices.snapshot import Snapshot

SELECTION = frozenset({Kind.CLASS, Kind.SELECTOR, Kind.FEATURE, Kind.POOL, Kind.CAPACITY, Kind.NODES})
"""Gates that select the devices of a request for all devices; the other gates test whether they are free."""


class Gate(Struct, frozen=True, eq=False):
    """A test of single devices."""

    kind: Kind
    about: str
    """The text for users, with the class or selector; unique among the gates of a request"""
    passed: Mask
    """(D,)"""
    error: Mask | None = None
    """(D,) the test fails with an error; disjoint from `passed`. None if there are no errors"""
    use: SelectorUse | None = None
    """The expression, if the gate is a selector"""


def gates_of(option: RequestOption, snapshot: Snapshot, reach: NodeReach) -> list[Gate]:
    """The gates of a request, in order. Gates in _RARE are left out if they stop no device."""
    return [
        gate for gate in _gates(option, snapshot, reach) if gate.kind not in _RARE or not gate.passed.all()
    ]


_RARE = frozenset({Kind.FEATURE, Kind.POOL, Kind.GROUPS})


def _gates(option: RequestOption, snapshot: Snapshot, reach: NodeReach) -> Iterator[Gate]:
    fleet, occupancy = snapshot.fleet, snapshot.occupancy
    rows = np.arange(fleet.size)
    of_class = len(option.device_class.spec.selectors)
    yield _class(option, option.selectors[:of_class], fleet)
    for number, use in enumerate(option.selectors[of_class:]):
        passed, error = _answers(use, fleet)
        yield Gate(Kind.SELECTOR, f"selector #{number}", passed, error, use)
    yield Gate(Kind.FEATURE, "enabled features", _supported(option, snapshot))
    yield Gate(Kind.POOL, "complete and valid pools", readiness(snapshot.topology, reach.chosen).ready)
    yield Gate(Kind.TAINTS, "tolerated taints", taints_permit(option, rows, snapshot))
    yield Gate(Kind.HELD, "not held by other claims", ~occupancy.held | option.admin)
    yield _capacity(option, snapshot)
    yield Gate(Kind.COUNTERS, "counters", _counters(option, snapshot))
    yield Gate(
        Kind.GROUPS,
        "not excluded by held devices",
        not_excluded(option, rows, snapshot) | _silenced(snapshot),
    )
    yield Gate(Kind.NODES, "reachable from considered nodes", reach.reached())


def _class(option: RequestOption, uses: Sequence[SelectorUse], fleet: Fleet) -> Gate:
    alive, failed = np.ones(fleet.size, dtype=np.bool_), np.zeros(fleet.size, dtype=np.bool_)
    for use in uses:
        passed, error = _answers(use, fleet)
        failed |= alive & error
        alive &= passed
    return Gate(Kind.CLASS, f"class {option.device_class.key.name}", alive, failed)


def _answers(use: SelectorUse, fleet: Fleet) -> tuple[Mask, Mask]:
    """(D,) where an expression is true, and where it fails: everywhere if it does not compile (SEL-3)."""
    try:
        masks = compile_selector(use.expression).masks(fleet.cel)
    except CelRefused:
        return np.zeros(fleet.size, dtype=np.bool_), np.ones(fleet.size, dtype=np.bool_)
    return masks.true, masks.error


def problem(use: SelectorUse, fleet: Fleet, row: int) -> str:
    """The error of an expression on a device where it fails."""
    try:
        return compile_selector(use.expression).explain(fleet.cel, row)
    except CelRefused as refused:
        return str(refused)


def _supported(option: RequestOption, snapshot: Snapshot) -> Mask:
    """(D,) devices that need no disabled feature (SEL-1, POOL-2, GRP-7, SCC-4)."""
    passed = np.ones(snapshot.fleet.size, dtype=np.bool_)
    for gate, needing in disabled_for(option, snapshot).items():
        # Further shares of a device with groups are not tested (GRP-5).
        passed &= ~needing | (snapshot.occupancy.sharing if gate == COMPATIBILITY_GROUPS else False)
    return passed


def _silenced(snapshot: Snapshot) -> Mask:
    """(D,) devices with groups while their gate is off: not what is held excludes them."""
    silenced = disabled_features(snapshot.topology).get(COMPATIBILITY_GROUPS)
    return np.zeros(snapshot.fleet.size, dtype=np.bool_) if silenced is None else silenced


def _capacity(option: RequestOption, snapshot: Snapshot) -> Gate:
    """An amount that cannot be represented is an error on each device with that request policy."""
    shape = snapshot.fleet.codes["shape"]
    passed = capacity_permits(option, np.arange(snapshot.fleet.size), snapshot)
    resolved = resolve(option, shape, snapshot)
    error = np.isin(shape, [code for code, taken in resolved.items() if isinstance(taken, Fatal)])
    return Gate(Kind.CAPACITY, "capacity", passed & ~error, error)


def _counters(option: RequestOption, snapshot: Snapshot) -> Mask:
    """(D,) `counters_permit`; all devices while the feature is off, which is a gate of its own."""
    size = snapshot.fleet.size
    if not snapshot.rules.has(PARTITIONABLE_DEVICES):
        return np.ones(size, dtype=np.bool_)
    return counters_permit(option, np.arange(size), snapshot)


Masks = Mapping[int, Mask]
"""id of an option -> (D,) devices"""


class Groups(Struct, frozen=True, eq=False):
    """The G groups of a tier, over the D devices of a fleet."""

    tier: str
    constraint: Constraint
    of: Rows
    """(D,) a device's group, -1 for none"""
    node: Rows
    """(G,) the fleet's code of the node"""
    value: Rows
    """(G,) the code of the value in `constraint`"""

    def passed_by(self, groups: Mask) -> Mask:
        """(D,) the devices of some groups (G,)."""
        found: Mask = np.append(groups, np.False_)[self.of]  # index -1 selects the appended False
        return found

    def lacking(self, slots: Sequence[Slot], masks: Masks) -> Amounts:
        """(slots, G) how many devices each group lacks for each request, in its best alternative."""
        short = [
            np.min(
                [
                    np.maximum(option.source.wanted - self._counts(option, masks), 0)
                    for option in slot.options
                ],
                axis=0,
            )
            for slot in slots
        ]
        return np.array(short)

    def have(self, option: RequestOption, masks: Masks, group: int) -> int:
        """The number of devices in a group that pass the gates of an option."""
        return int(self._counts(option, masks)[group])

    def pairs(self, slots: Sequence[Slot], masks: Masks) -> Amounts:
        """(G,) how many sets with one device for each request."""
        found: Amounts = np.min([self._counts(slot.options[0], masks) for slot in slots], axis=0)
        return found

    def text(self, group: int) -> str:
        """`numaNode 1`."""
        key = self.constraint.keys[int(self.value[group])]
        value = key[1] if isinstance(key, tuple) else key
        return f"{self.tier} {str(value).lower() if isinstance(value, bool) else value}"

    def _counts(self, option: RequestOption, masks: Masks) -> Amounts:
        there = self.of[masks[id(option)]]
        return np.bincount(there[there >= 0], minlength=len(self.node))


def groups_of(tier: str, constraint: Constraint, fleet: Fleet) -> Groups:
    """The groups of a tier or constraint. Devices without a single node are in no group."""
    codes, node = constraint.codes.astype(np.int64), fleet.codes["node"].astype(np.int64)
    values = int(codes.max(initial=-1)) + 1
    pair = np.where((codes >= 0) & (node >= 0), node * values + codes, -1)
    used, of = np.unique(np.append(pair, -1), return_inverse=True)
    used = used[1:]
    return Groups(tier, constraint, of.reshape(-1)[:-1] - 1, used // max(values, 1), used % max(values, 1))


class RequiredAlignment(Struct, frozen=True, eq=False):
    """An alignment with a required tier, over the D devices of a fleet."""

    claim: int
    number: int
    """Index among the alignments of the claim"""
    alignment: Alignment
    slots: tuple[Slot, ...]
    """The aligned requests"""
    tiers: tuple[Groups, ...]
    """The accepted tiers, the narrowest first"""
    countable: bool
    """Whether devices can be counted: each has one node and one value, and the requests have counts"""
    code_count: int
    """Number of node codes in the fleet"""

    @property
    def about(self) -> str:
        """`aligned on numaNode` or `aligned in pairs on numaNode`."""
        return f"aligned {'in pairs ' if self.alignment.pairs else ''}on {self.alignment.required}"

    def concerns(self, option: RequestOption) -> bool:
        """Whether an option is aligned."""
        return any(option is one for slot in self.slots for one in slot.options)

    def lacking(self, masks: Masks) -> Amounts:
        """(code_count,) how many devices the best group of each node lacks; only if countable.

        For pairs, what all groups of a node lack together: some pairs may share one tier and some another.
        """
        wanted = sum(_wanted(slot) for slot in self.slots)
        if self.alignment.pairs:
            pairs = np.sum([self._paired(groups, masks) for groups in self.tiers], axis=0)
            lacking: Amounts = np.maximum(wanted - pairs * len(self.slots), 0)
            return lacking
        least = np.full(self.code_count, wanted, dtype=np.int64)
        for groups in self.tiers:
            np.minimum.at(least, groups.node, groups.lacking(self.slots, masks).sum(axis=0))
        return least

    def passes(self, masks: Masks) -> Mask:
        """(D,) devices in `masks` that may be part of a solution."""
        if not self.countable:
            return np.logical_or.reduce([groups.constraint.allowed(None) for groups in self.tiers])
        if not self.alignment.pairs:
            complete = [(groups.lacking(self.slots, masks) == 0).all(axis=0) for groups in self.tiers]
        else:
            able = self.lacking(masks) == 0
            complete = [(g.pairs(self.slots, masks) > 0) & able[g.node] for g in self.tiers]
        passed = [groups.passed_by(some) for groups, some in zip(self.tiers, complete, strict=True)]
        return np.logical_or.reduce(passed)

    def describe_best(self, node: str, masks: Masks, snapshot: Snapshot) -> str:
        """The closest value on a node, and how many devices of each request share it."""
        code = snapshot.fleet.vocabulary.nodes.find(node)
        if not self.countable or code < 0:
            return f"no suitable devices on the node share {self.alignment.required}"
        if self.alignment.pairs:
            pairs = [(int(self._paired(groups, masks)[code]), groups.tier) for groups in self.tiers]
            most, tier = max(pairs, key=lambda pair: pair[0])
            return f"{most} of {_wanted(self.slots[0])} pairs share {tier}"
        choices: list[tuple[int, Groups, int]] = []
        for groups in self.tiers:
            here = np.flatnonzero(groups.node == code)
            if len(here):
                lacking = groups.lacking(self.slots, masks).sum(axis=0)[here]
                choices.append((int(lacking.min()), groups, int(here[lacking.argmin()])))
        if not choices:
            return f"no device on the node has {self.alignment.required}"
        # Among tiers that lack the same number, take the widest: it is the easiest to meet.
        _, groups, group = min(reversed(choices), key=lambda choice: choice[0])
        return f"{groups.text(group)}: {', '.join(self._have(groups, masks, group))}"

    def _have(self, groups: Groups, masks: Masks, group: int) -> Iterator[str]:
        for slot in self.slots:
            counts = [(option, groups.have(option, masks, group)) for option in slot.options]
            option, have = min(counts, key=lambda count: max(count[0].source.wanted - count[1], 0))
            yield f"{have} of {option.source.wanted} for request {option.name}"

    def _paired(self, groups: Groups, masks: Masks) -> Amounts:
        """(code_count,) pairs."""
        found = np.zeros(self.code_count, dtype=np.int64)
        np.add.at(found, groups.node, groups.pairs(self.slots, masks))
        return found


def required_alignments(
    parsed: ParsedClaims, left: Masks, snapshot: Snapshot, reach: NodeReach
) -> tuple[RequiredAlignment, ...]:
    """The required alignments of claims, in order. Raises Malformed.

    left   devices that pass the gates on single devices
    """
    known: dict[str, Groups] = {}
    found, fleet = [], snapshot.fleet
    for at, claim in enumerate(parsed.claims):
        for number, alignment in enumerate(alignments(claim, snapshot.classes)):
            if alignment.required == NODE:
                continue
            slots = tuple(
                slot
                for slot in parsed.slots
                if slot.claim == at
                and (not alignment.requests or slot.options[0].request in alignment.requests)
            )
            for tier in alignment.accepted:
                if tier not in known:
                    limited = limit(tier, ())
                    constraint = compile_constraint(limited, fleet, np.arange(fleet.size), snapshot.rules)
                    known[tier] = groups_of(tier, constraint, fleet)
            tiers = tuple(known[tier] for tier in alignment.accepted)
            countable = _countable(slots, tiers, left, reach)
            code_count = len(fleet.vocabulary.nodes.values)
            found.append(RequiredAlignment(at, number, alignment, slots, tiers, countable, code_count))
    return tuple(found)


def _countable(slots: Sequence[Slot], tiers: Sequence[Groups], left: Masks, reach: NodeReach) -> bool:
    options = [option for slot in slots for option in slot.options]
    return (
        bool(options)
        and all(groups.constraint.plain for groups in tiers)
        and all(not option.all and not option.admin and reach.local(left[id(option)]) for option in options)
    )


def _wanted(slot: Slot) -> int:
    return min(option.source.wanted for option in slot.options)
