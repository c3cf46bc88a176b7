"""The gates on several devices at once, in order: enough on a node, constraints, alignments, partitions."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from msgspec import Struct

from kernels.groups import distinct
from kernels.types import Amounts, Mask, Rows
from reconciler.allocation.alignment.deciding import PreferenceKey
from reconciler.allocation.alignment.partitions import PartitionedRequest, partitioned_requests
from reconciler.allocation.alignment.preferences import has_preferences
from reconciler.allocation.dra.constraints import Constraint, compile_constraint, derived_by
from reconciler.allocation.dra.request_options import ParsedClaims, RequestOption
from reconciler.allocation.explanation import Kind, NearMiss, Step
from reconciler.analysis.explain.funnel import MOST_NODES, GateResult, describe_failure
from reconciler.analysis.explain.gates import Masks, RequiredAlignment, groups_of, required_alignments
from reconciler.analysis.explain.shortage import Relaxation
from reconciler.api.objects.plan import Reason
from reconciler.errors import counted
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.readiness import NodeReach
from reconciler.state.devices.snapshot import Snapshot


class ConstraintGate(Struct, frozen=True, eq=False):
    """A constraint over the D devices of a fleet."""

    constraint: Constraint
    possible: Mask
    """(D,) devices of a node that has enough for every request with the same value; all if not counted"""

    def passes(self, mask: Mask, option: RequestOption) -> Mask:
        """(D,) devices of `mask` that may be part of a solution."""
        return mask & self.constraint.allowed(None, option) & self.possible


def constraint_gates(
    parsed: ParsedClaims, left: Masks, snapshot: Snapshot, reach: NodeReach
) -> dict[tuple[int, int], ConstraintGate]:
    """(claim, number) -> constraint. `left` are the devices that pass all other gates.

    Groups are counted only if each device has one value and one node; otherwise more devices pass.
    """
    found: dict[tuple[int, int], ConstraintGate] = {}
    fleet = snapshot.fleet
    for at, claim in enumerate(parsed.claims):
        for number, source in enumerate(claim.spec.devices.constraints):
            derived = derived_by(parsed, at, source)
            constraint = compile_constraint(source, fleet, np.arange(fleet.size), snapshot.rules, derived)
            slots = [
                slot
                for slot in parsed.slots
                if slot.claim == at and all(number in option.constraints for option in slot.options)
            ]
            options = [option for slot in slots for option in slot.options]
            counted = bool(options) and constraint.match and constraint.plain and not derived
            possible = np.ones(fleet.size, dtype=np.bool_)
            if counted and all(
                reach.local(left[id(one)]) and not one.all and not one.admin for one in options
            ):
                groups = groups_of("", constraint, fleet)
                possible = groups.passed_by((groups.lacking(slots, left) == 0).all(axis=0))
            found[at, number] = ConstraintGate(constraint, possible)
    return found


PARTITION = "in a partition that can be allocated"
MOST_MISSING = 3
"""Maximum missing devices of a partition that are described."""


def partition_passes(request: PartitionedRequest, fleet: Fleet) -> Mask:
    """(D,) devices of eligible partitions that are completely free."""
    passed, picks = np.zeros(fleet.size, dtype=np.bool_), _picks(request)
    of_whole = request.whole[:, picks].astype(np.int32) @ request.layout.members[picks].astype(np.int32) > 0
    rows = request.layout.rows[of_whole]
    passed[rows[rows >= 0]] = True
    return passed


def impossible_partition(request: PartitionedRequest) -> str:
    """Why no partition of the table can ever be allocated; empty if one can."""
    if len(_picks(request)):
        return ""
    devices = counted(request.size, "device")
    sizes = distinct(request.layout.sizes)
    if request.size not in sizes:
        listed = ", ".join(map(str, sizes.tolist()))
        return f"the table lists no partition of {devices}, only of {listed}"
    return f"no partition of {devices} in the table has the requested bandwidth"


def lacking_of_partition(request: PartitionedRequest, free: Mask, code_count: int) -> Amounts:
    """(code_count,) by code of the node: how many devices the closest partition of the node lacks.

    free   (D,) devices that the request can get
    """
    least = np.full(code_count, request.size, dtype=np.int64)
    picks = _picks(request)
    if len(picks) and len(request.layout.pools):
        of_pool = request.layout.missing(free)[:, picks].min(axis=1)
        everywhere = of_pool[request.layout.node < 0].min(initial=request.size)
        local = request.layout.node >= 0
        np.minimum.at(least, request.layout.node[local], of_pool[local])
        least = np.minimum(least, everywhere)
    return least


def closest_partition(
    request: PartitionedRequest, free: Mask, code: int, failure: Callable[[int], str]
) -> str:
    """The partition of a node that lacks the fewest devices, and why those fail.

    code      of the node
    failure   row -> why the device fails
    """
    layout, picks = request.layout, _picks(request)
    pools = np.flatnonzero((layout.node == code) | (layout.node < 0))
    if not len(pools) or not len(picks):
        return (
            impossible_partition(request)
            or f"the pools of the node have no partition of {counted(request.size, 'device')}"
        )
    missing = layout.missing(free)[np.ix_(pools, picks)]
    pool, pick = np.unravel_index(missing.argmin(), missing.shape)
    members = np.flatnonzero(layout.members[picks[pick]])
    rows = layout.rows[pools[pool], members]
    names = [layout.names[n] for n in members.tolist()]
    failures = {
        failure(row) if row >= 0 else f"{name} does not exist": None
        for row, name in zip(rows.tolist(), names, strict=True)
        if row < 0 or not free[row]
    }
    have = len(names) - int(missing.min())
    head = f"{have} of {len(names)} devices of partition {', '.join(names)} can be allocated"
    return "; ".join([head, *list(failures)[:MOST_MISSING]])


def _picks(request: PartitionedRequest) -> Rows:
    """(p,) the eligible partitions."""
    return np.concatenate([*request.levels, np.zeros(0, dtype=np.intp)])


class JointRequirements(Struct, frozen=True, eq=False):
    """The joint allocation requirements of claims: they stay pending until all are met."""

    alignments: tuple[RequiredAlignment, ...] = ()
    partitions: tuple[PartitionedRequest, ...] = ()
    failed: RequiredAlignment | None = None
    """The first alignment that cannot be met together with the earlier ones"""

    def described(self) -> Iterator[tuple[str, PreferenceKey]]:
        """Each requirement: its text, and the key with which `decide` ignores it."""
        for alignment in self.alignments:
            yield f"the alignment on {alignment.alignment.required}", (alignment.claim, alignment.number)
        for request in self.partitions:
            yield f"the partition table for request {request.at[1]}", request.at


def joint_requirements(
    parsed: ParsedClaims,
    left: Masks,
    snapshot: Snapshot,
    reach: NodeReach,
    reason: Reason | None,
    relaxation: Relaxation,
) -> JointRequirements:
    """The requirements of claims. `reason` is why they were refused; None if they can be allocated."""
    if not has_preferences(parsed.claims, snapshot.classes):
        return JointRequirements()
    alignments = required_alignments(parsed, left, snapshot, reach)
    honored = tuple(request for request in partitioned_requests(parsed.claims, snapshot) if request.honored)
    joint = JointRequirements(alignments, honored)
    if reason is not Reason.ALIGNMENT:
        return joint
    for number in range(1, len(alignments)):
        later = [preference for _, preference in JointRequirements(alignments[number:], honored).described()]
        if relaxation.fits_without(later) is False:
            return JointRequirements(alignments, honored, alignments[number - 1])
    return JointRequirements(alignments, honored, alignments[-1])


def joint_near_misses(
    joint: JointRequirements,
    left: Masks,
    results: Sequence[Sequence[GateResult]],
    snapshot: Snapshot,
    reach: NodeReach,
) -> Iterator[NearMiss]:
    """The nodes that are closest to meeting the failed alignment, or else the partitions."""
    if joint.failed is not None:
        failed = joint.failed
        if failed.countable:
            short = reach.by_code(failed.lacking(left), 1)
        else:
            short = np.zeros(len(reach.names), dtype=np.int64)
        for at in np.argsort(short, kind="stable")[:MOST_NODES].tolist():
            best = failed.describe_best(reach.names[at], left, snapshot)
            enough = failed.countable and not short[at]
            yield NearMiss(reach.names[at], (), f"{best}, but these do not fit together" if enough else best)
        return
    by_request = {(r.option.claim, r.option.request): r for alternatives in results for r in alternatives}
    short = np.zeros(len(reach.names), dtype=np.int64)
    for request in joint.partitions:
        short += reach.by_code(
            lacking_of_partition(request, by_request[request.at].left, reach.code_count), request.size
        )
    for at in np.argsort(short, kind="stable")[:MOST_NODES].tolist():
        parts = [
            _closest(request, by_request[request.at], reach.code_of(at), snapshot)
            for request in joint.partitions
        ]
        yield NearMiss(reach.names[at], (), "; ".join(parts))


def _closest(request: PartitionedRequest, result: GateResult, code: int, snapshot: Snapshot) -> str:
    def failure(row: int) -> str:
        return describe_failure(row, result.option, result.gates, snapshot)

    return f"request {request.at[1]}: {closest_partition(request, result.left, code, failure)}"


class MultiDeviceGates(Struct, frozen=True, eq=False):
    """The state that the gates of all requests share."""

    together: Mask
    """(N,) nodes with enough devices for each request alone"""
    joint: JointRequirements
    refusing: Kind | None
    """The gate at which the search fails: together, alignment or partition. None if the claims fit"""
    left: Masks
    """Devices that pass all gates on single devices"""
    selected: Masks
    """Devices that pass the selection gates, even if they are held"""

    def steps(
        self, result: GateResult, constraints: Sequence[ConstraintGate], reach: NodeReach, snapshot: Snapshot
    ) -> Iterator[Step]:
        """The gates for one request. No device passes the refusing gate, whatever counting says."""
        option, enough = result.option, result.enough
        alive = result.left & reach.reached(enough)
        wanted = option.source.wanted
        amount = "all devices" if option.all else counted(wanted, "device")
        yield _step(Kind.ENOUGH, f"{amount} on one node", alive, nodes=enough)
        for gate in constraints:
            lack = np.count_nonzero(alive & (gate.constraint.of(option) < 0))
            alive &= gate.passes(result.left, option)
            detail = f"{lack} of them {'has' if lack == 1 else 'have'} no value of it" if lack else ""
            yield _step(Kind.CONSTRAINT, f"constraint on {gate.constraint.attribute}", alive, detail)
        able = self.together if self.refusing is not Kind.TOGETHER else np.zeros_like(self.together)
        alive &= reach.reached(able)
        yield _step(Kind.TOGETHER, "all requests together", alive, nodes=able)
        for alignment in self.joint.alignments:
            if alignment.concerns(option):
                failed = alignment is self.joint.failed
                alive &= alignment.passes(self.left) & (not failed)
                nodes = None
                if alignment.countable:
                    short = reach.by_code(alignment.lacking(self.left), 1)
                    nodes = able = able & (short == 0) & (not failed)
                never = failed and alignment.countable and alignment.lacking(self.selected).min(initial=1) > 0
                detail = "even if all devices were free" if never else ""
                yield _step(Kind.ALIGNMENT, alignment.about, alive, detail, nodes)
        for request in self.joint.partitions:
            if request.at == (option.claim, option.request):
                failed = self.refusing is Kind.PARTITION
                alive &= partition_passes(request, snapshot.fleet) & (not failed)
                short = reach.by_code(lacking_of_partition(request, result.left, reach.code_count), 1)
                able = able & (short == 0) & (not failed)
                yield _step(
                    Kind.PARTITION,
                    PARTITION,
                    alive,
                    impossible_partition(request) if failed else "",
                    able,
                )


def _step(kind: Kind, about: str, alive: Mask, detail: str = "", nodes: Mask | None = None) -> Step:
    able = None if nodes is None else int(np.count_nonzero(nodes))
    return Step(kind, about, int(np.count_nonzero(alive)), detail=detail, nodes=able)
