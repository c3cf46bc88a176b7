"""Whether the places of a gang, decided on an earlier state, are possible now."""

from itertools import chain

from reconciler.allocation.gangs.kinds import company_of, kinds_of
from reconciler.allocation.gangs.places import Places, leave
from reconciler.allocation.gangs.question import GangGranted, GangQuestion
from reconciler.errors import Rejected
from reconciler.state.devices.snapshot.snapshot import Snapshot
from reconciler.state.devices.snapshot.validity import still_valid, wants_all
from reconciler.state.trial import Trial


def still_fits(question: GangQuestion, granted: GangGranted, before: Snapshot, trial: Trial) -> bool:
    """Whether all seats are possible in the state of a trial, which is as before on return.

    Sound, not complete: the devices of the seats, their counters and their nodes must not have changed since
    `before`; other pods may have come if each member still suits its node beside them, one member after
    another in the order in which they were placed.
    """
    mark = trial.mark()
    try:
        return _devices_fit(granted, question, before, trial.snapshot) and _pods_fit(granted, question, trial)
    except Rejected:
        return False
    finally:
        trial.back_to(mark)


def _devices_fit(granted: GangGranted, question: GangQuestion, before: Snapshot, now: Snapshot) -> bool:
    claims = chain.from_iterable(member.claims for member in question.members)
    whole = any(map(wants_all, claims))
    return all(
        still_valid(seat.node, [one.id for one in plan.allocation.devices.results], before, now, whole=whole)
        for seat in granted.seats
        for plan in seat.plans
    )


def _pods_fit(granted: GangGranted, question: GangQuestion, trial: Trial) -> bool:
    leave(question, trial)
    company = company_of(question.members, trial.nodes)
    kinds = kinds_of(question.members, trial.snapshot, trial.nodes, company)
    places = Places(kinds, company, trial)
    order = trial.snapshot.topology.order
    place_of = {name: at for at, name in enumerate(order)}
    seats = {seat.pod: seat for seat in granted.seats}
    member_of = {
        member.pod.key: (kind, number) for kind in kinds for number, member in enumerate(kind.members)
    }
    for plan in chain.from_iterable(seat.plans for seat in granted.seats):
        trial.assume(plan)
    for pod in granted.order:
        (kind, number), node = member_of[pod], seats[pod].node
        if node not in place_of:
            return False
        plans = [trial.store.assumed(claim.metadata.uid) for claim in kind.shared]
        known = [plan for plan in plans if plan is not None]
        allowed = places.now(kind, number, known, trial.snapshot)[place_of[node]]
        if not (allowed and places.at_first[kind.number][place_of[node]] and places.has_room(kind, node)):
            return False
        trial.host(kind.members[number].pod, node, kind.wanted)
    return True
