"""Decides a gang: places for enough members together, in the smallest domain that can hold them.

More members come first, then the tightest tiers, then the smallest domain. Source: GANG-6 to GANG-11.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
from msgspec import Struct

from kernels.groups import distinct, group_code
from kernels.types import Mask
from reconciler.allocation.dra.availability import available
from reconciler.allocation.dra.budget import Budget, SelectorsNotRun
from reconciler.allocation.dra.claim_shapes import ClaimShape, claim_shape
from reconciler.allocation.gangs import kinds as gang_kinds
from reconciler.allocation.gangs.attempts import OutOfSteps, Pace
from reconciler.allocation.gangs.domains import Domain, Domains, Tiers
from reconciler.allocation.gangs.places import Likeness, Places, leave
from reconciler.allocation.gangs.search import Field, Partial, Search, Taken
from reconciler.allocation.gangs.trees import TreeDecision
from reconciler.allocation.placement.device_room import devices_take
from reconciler.allocation.placement.placing import Placement, refusal_reason
from reconciler.allocation.placement.volumes import minds_other_pods
from reconciler.allocation.policies.selection import PLAIN
from reconciler.api.objects.gangs import Tier
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Plan, Reason
from reconciler.errors import Rejected, counted
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.pods.terms import affinity_of, anti_affinity_of, ports_of
from reconciler.state.trial import Trial


def no_domain(question: gang_kinds.GangQuestion, key: str) -> gang_kinds.GangUnsatisfied:
    """A required tier names nothing."""
    message = (
        f"gang {question.gang} requires {key}, which is no label of a node and no attribute of a device; "
        "correct the gang's topology, or label the nodes"
    )
    return gang_kinds.GangUnsatisfied(gang_kinds.NO_TOPOLOGY, message)


def refused(
    question: gang_kinds.GangQuestion,
    field: Field,
    domains: Sequence[Domain],
    fits: int,
    steps: int,
    *,
    gave_up: bool,
) -> gang_kinds.GangUnsatisfied:
    """No domain holds the minimum, as far as the search knows. `domains` meet the required tiers only."""
    if gave_up:
        message = (
            f"gave up after {steps} steps; {fits} of {_pods(question)} were placed together, "
            f"{question.least} are needed. It is unknown whether they fit"
        )
        return gang_kinds.GangUnsatisfied(Reason.GAVE_UP, message, fits, steps=steps)
    error = next((kind for kind in field.kinds if kind.error is not None), None)
    if error is not None and error.error is not None:
        text = f"pod {error.pod.key}: {error.error}"
        return gang_kinds.GangUnsatisfied(str(error.error.reason), text, steps=steps)
    best = max(domains, key=lambda domain: domain.most, default=None)
    if best is None and not any(tier.required for tier in question.tiers):
        return gang_kinds.GangUnsatisfied(gang_kinds.UNPLACED, "there are no nodes", steps=steps)
    if best is None:
        message = f"no node has all labels that gang {question.gang} requires: {_keys(question)}"
        if question.nodes:
            message += ", with the values of the nodes on which its other pods are"
        if gone := sorted({*question.nodes} - {*field.order}):
            message += f"; of these, {', '.join(gone)} {'does' if len(gone) == 1 else 'do'} not exist"
        return gang_kinds.GangUnsatisfied(gang_kinds.UNPLACED, message, steps=steps)
    short = tuple(_short(best, field.kinds, question.least))
    message = too_few(
        best.most, len(question.members), question.least, met=best.met, domains=len(domains), short=short
    )
    if not short and (minds := _what_pods_mind(field)):
        message += f". Nodes that have pods of the gang exclude others of it by {' and '.join(minds)}"
    return gang_kinds.GangUnsatisfied(
        gang_kinds.UNPLACED, message + _left_out(field), best.most, short, steps
    )


def _left_out(field: Field) -> str:
    """Why nodes and pools are left out, as the end of a message; empty if none is."""
    kinds = {kind.like: kind for kind in field.kinds}.values()
    found = (field.places.left_out(kind, field.trial.snapshot) for kind in kinds)
    different = "; ".join(dict.fromkeys(filter(None, found)))
    return f". {different}" if different else ""


def too_few(
    most: int,
    pods: int,
    least: int,
    *,
    met: Sequence[tuple[Tier, str]],
    domains: int,
    short: Sequence[tuple[str, int]],
) -> str:
    """Says how many of some pods fit in the best of some domains, and what it lacks."""
    where = ", ".join(f"{tier.key}={value}" for tier, value in met)
    message = f"{most} of {counted(pods, 'pod')} fit together at most{f' in {where}' if where else ''}; "
    message += f"{least} {'is' if least == 1 else 'are'} needed"
    if domains > 1:
        message += f"; {domains} domains were considered"
    if short:
        # A name is also a key of what JSON says is short.
        names = [
            (amount, name.replace("devices ", "device ") if amount == 1 else name) for name, amount in short
        ]
        message += ". Short: " + ", ".join(
            f"{amount}{'m' if name == 'cpu' else ''} {name}" for amount, name in names
        )
    return message


def _short(domain: Domain, kinds: Sequence[gang_kinds.Kind], least: int) -> list[tuple[str, int]]:
    """What the domain lacks for the first members of the minimum."""
    first = sorted((position, kind.number) for kind in kinds for position in kind.positions)[:least]
    numbers = [sum(number == kind.number for _, number in first) for kind in kinds]
    return domain.limits.shortages(domain.grouping.codes, domain.number, numbers)


def _what_pods_mind(field: Field) -> list[str]:
    """By what members may exclude one another from nodes, apart from room."""
    pods = [kind.pod for kind in field.kinds]
    found = {
        "affinity": any(affinity_of(pod) or anti_affinity_of(pod) for pod in pods),
        "topology spread": any(pod.spec.topology_spread_constraints for pod in pods),
        "host ports": any(map(ports_of, pods)),
        "volumes": any(minds_other_pods(pod, field.trial.nodes) for pod in pods),
    }
    return [name for name, minds in found.items() if minds]


def _pods(question: gang_kinds.GangQuestion) -> str:
    return counted(len(question.members), "pod")


def _keys(question: gang_kinds.GangQuestion) -> str:
    return ", ".join(tier.key for tier in question.tiers if tier.required)


HARD_DOMAINS = 10
"""Domains in which a decision may use all its steps before it gives up"""


def decide_gang(
    question: gang_kinds.GangQuestion, trial: Trial, *, steps: int, budget: Budget
) -> gang_kinds.GangGranted | gang_kinds.GangUnsatisfied:
    """Places for all members that fit together, at least the minimum, or why there are none.

    On success the seats are placed in the trial; otherwise it is as before. `steps` bounds the devices and
    nodes tried in one domain; ten times as many are tried in all. A refusal is proved unless its reason is
    that the search gave up. A search that gives up in the order of the policies is repeated in first-fit
    order, and the answer with more members counts: so policies never cost a member its place. Raises
    Unfinished as `budget` does; the caller then leaves the trial.
    """
    if not question.members:
        return gang_kinds.GangGranted(())
    mark = trial.mark()
    outcome, gave_up = _decide(question, trial, steps, budget)
    if gave_up and not question.policies.order_nothing:
        trial.back_to(mark)
        plain, _ = _decide(replace(question, policies=PLAIN), trial, steps, budget)
        if _places(plain) >= _places(outcome):
            outcome = plain
        else:
            trial.back_to(mark)
            outcome, _ = _decide(question, trial, steps, budget)
    if isinstance(outcome, gang_kinds.GangUnsatisfied):
        trial.back_to(mark)
    return outcome


def _places(outcome: gang_kinds.GangGranted | gang_kinds.GangUnsatisfied) -> int:
    return len(outcome.seats) if isinstance(outcome, gang_kinds.GangGranted) else 0


def _decide(
    question: gang_kinds.GangQuestion, trial: Trial, steps: int, budget: Budget
) -> tuple[gang_kinds.GangGranted | gang_kinds.GangUnsatisfied, bool]:
    """The answer, and whether the search gave up somewhere."""
    before = leave(question, trial)
    snapshot = trial.snapshot
    try:
        company = gang_kinds.pod_interactions(question.members, trial.nodes)
        kinds = gang_kinds.kinds_of(question.members, snapshot, trial.nodes, company, question.tree)
        # Here, for a thread works on a fork, which can refuse what is not listed but not have it listed.
        placement = Placement(trial.nodes, supposed=trial.supposed)
        for kind in kinds:
            placement.require_objects(kind.pod, snapshot)
        shapes = [kind.shape for kind in kinds if kind.shape is not None]
        shapes += _shapes_of_shared(kinds, snapshot)
        if budget.skips_slow_selectors and not all(shape.quick(snapshot) for shape in shapes):
            raise SelectorsNotRun("the selectors must run on the fleet first")
        places = Places(kinds, company, trial)
    except Rejected as exc:
        return gang_kinds.GangUnsatisfied(refusal_reason(exc), str(exc)), False
    apart, order = _apart(shapes, snapshot), snapshot.topology.order
    field = Field(kinds, company, places, trial, apart, order, question.policies)
    if question.tree is not None:
        return _decide_tree(question, question.tree, field, before, steps, budget)
    tiers = Tiers(question, trial.nodes, snapshot)
    if tiers.unknown and any(tier.required and tier.key in tiers.unknown for tier in question.tiers):
        return no_domain(question, tiers.unknown[0]), False
    used = _policies_of(question, kinds, snapshot)
    del snapshot
    decision = _Decision(question, field, tiers, Domains(tiers, kinds, places, trial), steps, budget)
    found = decision.run()
    if found is None:
        refusal = refused(
            question,
            field,
            decision.domains.meeting(tiers.required()),
            decision.fits,
            decision.taken_steps,
            gave_up=decision.gave_up,
        )
        return refusal, decision.gave_up
    domain, taken = found
    granted = _granted(question, field, domain.met, taken, before, decision.taken_steps)
    return replace(granted, policy=used), decision.gave_up


def _decide_tree(
    question: gang_kinds.GangQuestion,
    tree: gang_kinds.AskedGroup,
    field: Field,
    before: dict[ObjectKey, str],
    steps: int,
    budget: Budget,
) -> tuple[gang_kinds.GangGranted | gang_kinds.GangUnsatisfied, bool]:
    """The same for a tree of groups."""
    used = _policies_of(question, field.kinds, field.trial.snapshot)
    pace = Pace(budget, HARD_DOMAINS * steps)
    decision = TreeDecision(question, tree, field, pace, steps)
    if decision.unknown:
        return no_domain(question, decision.unknown), False
    found = decision.run()
    if found is not None:
        met, taken = found
        granted = _granted(question, field, met, taken, before, pace.taken)
        return replace(granted, policy=used), decision.gave_up
    if decision.gave_up or any(kind.error is not None for kind in field.kinds):
        refusal = refused(question, field, (), decision.fits, pace.taken, gave_up=decision.gave_up)
        return refusal, decision.gave_up
    return decision.refusal(_left_out(field)), False


def _policies_of(
    question: gang_kinds.GangQuestion, kinds: Sequence[gang_kinds.Kind], snapshot: Snapshot
) -> str:
    """The names of the policies of all members, in order."""
    if question.policies.first_fit:
        return ""
    found = (
        question.policies.of(kind.members[0].claims, snapshot) for kind in kinds if kind.shape is not None
    )
    return "+".join(dict.fromkeys(policy.name for policy in found if policy is not None))


def _shapes_of_shared(kinds: Sequence[gang_kinds.Kind], snapshot: Snapshot) -> Iterator[ClaimShape]:
    """The shapes of claims that several members use."""
    for kind in kinds:
        if kind.error is None and kind.shared:
            yield claim_shape(kind.shared, snapshot)


def _apart(shapes: Sequence[ClaimShape], snapshot: Snapshot) -> bool:
    """Whether each device that the gang could use belongs to one node, as do its counters and exclusions, and
    takes nothing of it.
    """
    fleet, takes = snapshot.fleet, devices_take(snapshot)
    for shape in shapes:
        for option in (option for slot in shape.parsed.slots for option in slot.options):
            current = available(option, snapshot)
            if not current.local or (takes and (fleet.codes["mapped"][current.concerned] >= 0).any()):
                return False
            if fleet.exclusion is not None and (current.concerned & fleet.exclusion.bound).any():
                return False
            rows = np.flatnonzero(current.concerned)
            if fleet.sets.shape[1] and not _counters_apart(rows, snapshot):
                return False
    return True


def _counters_apart(rows: np.ndarray, snapshot: Snapshot) -> bool:
    """Whether all devices of each counter set that these draw from belong to one node."""
    fleet = snapshot.fleet
    sets = fleet.sets[rows]
    others = fleet.by_set.of_any(distinct(sets[sets >= 0]).astype(np.intp))
    at, k = np.nonzero(fleet.sets[others] >= 0)
    drawn, node = fleet.sets[others[at], k].astype(np.intp), fleet.codes["node"][others[at]]
    return bool((group_code(node, drawn, len(fleet.totals))[drawn] >= 0).all())


class _Decision(Struct, eq=False):
    """One decision, once its question is read."""

    question: gang_kinds.GangQuestion
    field: Field
    tiers: Tiers
    domains: Domains
    steps: int
    budget: Budget
    taken_steps: int = 0
    fits: int = 0
    """Members that were placed together, at most"""
    gave_up: bool = False
    _partial: tuple[Domain, Partial] | None = None
    """The most members that a search placed before it gave up"""

    def run(self) -> tuple[Domain, tuple[Taken, ...]] | None:
        """The domain and the places, which are held in the trial; None if there are none."""
        everyone = len(self.question.members)
        target = min(self._most(self.tiers.required()), everyone)
        while target >= max(self.question.least, 1):
            for met in self.tiers.levels():
                found = self._among(met, target)
                if found is not None:
                    return found
            target = min(target - 1, self._most(self.tiers.required()))
        if self._partial is None or len(self._partial[1].taken) < self.question.least:
            return None
        domain, partial = self._partial
        partial.place(self.field)
        return domain, partial.taken

    def _most(self, met: tuple[Tier, ...]) -> int:
        return max((domain.most for domain in self.domains.meeting(met)), default=0)

    def _among(self, met: tuple[Tier, ...], target: int) -> tuple[Domain, tuple[Taken, ...]] | None:
        for domain in self.domains.meeting(met):
            if domain.most < target:
                continue
            remaining = HARD_DOMAINS * self.steps - self.taken_steps
            if remaining <= 0:
                self.gave_up = True
                domain.most = target - 1
                continue
            taken = self._search(domain, target, min(self.steps, remaining))
            if taken is not None:
                return domain, taken
        return None

    def _search(self, domain: Domain, target: int, steps: int) -> tuple[Taken, ...] | None:
        field, mask = self.field, domain.grouping.devices
        devices: dict[str, Mask] = {}
        if mask is not None:
            claims = chain.from_iterable(member.claims for member in self.question.members)
            devices = {claim.metadata.uid: mask for claim in claims}
        pace = Pace(self.budget, steps)
        allowed = np.stack(field.places.at_first)
        among = domain.places(self.tiers)
        likeness = Likeness(field.kinds, allowed, among, devices.values(), field.trial, joined=field.shares)
        search = Search(field, domain.limits, likeness, devices, among, pace)
        try:
            found = search.run(target)
        except OutOfSteps:
            self.gave_up = True
            domain.most = target - 1
            if len(search.best.taken) > self.fits:
                self.fits = len(search.best.taken)
                self._partial = domain, search.best
            return None
        finally:
            self.taken_steps += pace.taken
        self.fits = max(self.fits, found.fits)
        if found.taken is None:
            domain.most = min(domain.most, found.most)
        return found.taken


def _granted(
    question: gang_kinds.GangQuestion,
    field: Field,
    met: tuple[tuple[Tier, str], ...],
    taken: Sequence[Taken],
    before: dict[ObjectKey, str],
    steps: int,
) -> gang_kinds.GangGranted:
    """The seats in the order of the members. A claim in common is planned with the first of its users."""
    order, trial = field.order, field.trial
    place_of = {field.kinds[one.kind].positions[one.member]: one.place for one in taken}
    planned: set[str] = set()
    seats, left_out = [], []
    for at, member in enumerate(question.members):
        if at not in place_of:
            left_out.append(member.pod.key)
            if member.pod.key in before:
                trial.host(member.pod, before[member.pod.key])
            continue
        plans: list[Plan] = []
        for claim in member.claims:
            plan = trial.store.assumed(claim.metadata.uid)
            assert plan is not None  # the search placed the member
            if plan.uid not in planned:
                planned.add(plan.uid)
                plans.append(plan)
        seats.append(gang_kinds.Seat(member.pod.key, order[place_of[at]], tuple(plans)))
    came = (field.kinds[one.kind].members[one.member].pod.key for one in taken)
    return gang_kinds.GangGranted(tuple(seats), tuple(left_out), met, steps, order=tuple(came))
