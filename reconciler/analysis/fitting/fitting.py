"""Answers how many pods of each set fit together: by columns where that is possible, else by the search."""

from collections.abc import Container, Hashable, Iterable, Mapping

from reconciler.allocation.dra.budget import UNLIMITED, Budget
from reconciler.allocation.gangs import kinds
from reconciler.allocation.gangs.deciding import decide_gang
from reconciler.allocation.gangs.domains import Tiers
from reconciler.allocation.placement.placing import refusal_reason
from reconciler.analysis.fitting.filling import Filled, Filling, Form, NeedsSearch
from reconciler.analysis.fitting.question import Fit, FitQuestion, PodSet, Seat, SetFit, Short
from reconciler.analysis.world import remove_nodes, unallocated
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod, claims_of, is_live
from reconciler.api.objects.gangs import GangKey, GangSource, Tier
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.similar_names import key_instead
from reconciler.errors import Malformed, Rejected, counted
from reconciler.state.store import Store
from reconciler.state.trial import Trial


def suppose(question: FitQuestion, trial: Trial) -> dict[str, tuple[ResourceClaim, ...]]:
    """Remove what the question leaves out. Returns the existing claims of sets, by the names of the sets.

    Raises Rejected for a claim, a pod or a node that does not exist, and for a claim that holds nothing.
    """
    freed = _freed(question.without, trial.store)
    for claim in freed.values():
        trial.release(claim.metadata.uid)
    for key in question.without:
        if key in trial.store.pods:
            trial.remove(key)
    remove_nodes(question.without_nodes, trial.store, trial.nodes)
    return {
        asked.name: tuple(_named(asked, key, freed, trial) for key in asked.named)
        for asked in question.sets
        if asked.named
    }


def _freed(without: frozenset[ObjectKey], store: Store) -> dict[ObjectKey, ResourceClaim]:
    """The claims that hold nothing without some claims and pods."""
    freed, gone = dict[ObjectKey, ResourceClaim](), dict[ObjectKey, Pod]()
    for key in sorted(without):
        claim, pod = store.claims.get(key), store.pods.get(key)
        if claim is None and pod is None:
            known = [*store.claims, *store.pods]
            raise Rejected(f"there is no claim and no pod {key}{key_instead(key, known, 'claims and pods')}")
        if claim is not None and claim.allocation is not None:
            freed[key] = claim
        elif pod is None:
            raise Rejected(f"claim {key} holds no devices, so leaving it out frees nothing")
        if pod is not None:
            gone[key] = pod
    return freed | {claim.key: claim for claim in _only_used_by(gone, store)}


def _only_used_by(gone: Mapping[ObjectKey, Pod], store: Store) -> Iterable[ResourceClaim]:
    """The allocated claims of pods that nobody else has reserved, and that no other pod names.

    A pod that names a claim may use it before the claim is reserved for it: it needs a place where the
    devices are.
    """
    named = {key for pod in gone.values() for key in claims_of(pod)}
    if not named:
        return
    for pod in store.pods.values():
        if pod.key not in gone and is_live(pod):
            named.difference_update(claims_of(pod))
    for claim in map(store.claims.get, sorted(named)):
        if claim is not None and claim.allocation is not None and _reserved_only_for(gone, claim):
            yield claim


def _reserved_only_for(pods: Container[ObjectKey], claim: ResourceClaim) -> bool:
    return all(
        user.resource == "pods" and ObjectKey(claim.key.namespace, user.name) in pods
        for user in claim.status.reserved_for
    )


def _named(
    asked: PodSet, key: ObjectKey, freed: dict[ObjectKey, ResourceClaim], trial: Trial
) -> ResourceClaim:
    claim = trial.store.claims.get(key)
    if claim is None:
        raise Malformed(f"pod set {asked.name}", "template.spec.resourceClaims", f"there is no claim {key}")
    return unallocated(claim) if key in freed else claim


STEPS = 2_000
"""Devices and nodes that the search tries for one set in one domain; ten times as many in all"""


def fit(question: FitQuestion, trial: Trial, *, steps: int = STEPS, budget: Budget = UNLIMITED) -> Fit:
    """How many pods of each set fit, each set beside those before it, and where.

    Everything is placed in the trial or forgotten when it ends, but for the nodes that the question leaves
    out: then the store and the nodes of the trial are of no use any more. Raises Rejected for claims, pods
    and nodes that do not exist, and Unfinished as `budget` does.
    """
    named = suppose(question, trial)
    batch = _Batch(trial, named, steps, budget)
    return Fit(tuple([batch.place(asked) for asked in question.sets]))


class _Batch:
    """The sets of one question."""

    def __init__(
        self, trial: Trial, named: dict[str, tuple[ResourceClaim, ...]], steps: int, budget: Budget
    ) -> None:
        """`named` are the claims that all pods of a set use, by its name."""
        self._trial, self._named, self._steps, self._budget = trial, named, steps, budget
        self._filling: Filling | None = None
        self._forms: dict[Hashable, tuple[kinds.Kind, Form]] = {}
        """What a pod takes of the state that `_filling` began with, by what makes pods alike"""
        self._tiers: dict[tuple[Tier, ...], Tiers] = {}

    def place(self, asked: PodSet) -> SetFit:
        """Place one set as far as it fits."""
        self._budget.spend()
        try:
            kind, form, filled = self._filled(asked)
        except NeedsSearch:
            return self._searched(asked, asked.least)
        except Rejected as exc:
            return SetFit(asked.name, asked.count, (), short=Short(refusal_reason(exc), str(exc)))
        placed, short = len(filled.places), None
        if placed < asked.count:
            short = self._columns.short(asked, kind, form, filled)
            if short is None:  # the search may share the devices out better
                found = self._searched(asked, max(asked.least, placed + 1))
                if found.seats or placed < asked.least:
                    return found
                short = found.short
                kind, form, filled = self._filled(asked)
            if placed < asked.least:
                return SetFit(asked.name, asked.count, (), short=short)
        seats = self._columns.take(asked, form, filled)
        domain = tuple((tier.key, value) for tier, value in filled.domain)
        return SetFit(asked.name, asked.count, tuple(seats), domain, short)

    @property
    def _columns(self) -> Filling:
        """What is taken of the present state of the trial."""
        if self._filling is None:
            self._filling = Filling(self._trial)
        return self._filling

    def _filled(self, asked: PodSet) -> tuple[kinds.Kind, Form, Filled]:
        """The places that columns find, which are not taken yet. Raises NeedsSearch and Rejected."""
        nodes, snapshot = self._trial.nodes, self._trial.snapshot
        member = kinds.Member(asked.pod, asked.claims)
        company = kinds.pod_interactions([member], nodes)
        if asked.named or company.crowding:
            raise NeedsSearch
        alike = kinds.likeness(member, nodes, company)
        if alike not in self._forms:
            kind = kinds.kind_of(member, snapshot)
            self._forms[alike] = kind, self._columns.form_of(kind)
        kind, form = self._forms[alike]
        self._budget.spend()
        tiers = None
        if asked.tiers:
            tiers = self._tiers.get(asked.tiers)
            if tiers is None:  # no pod of a batch has a place before, so equal tiers have equal domains
                key = GangKey(asked.pod.key.namespace, GangSource.ANNOTATION, asked.name)
                question = kinds.GangQuestion(key, (member,), asked.least, asked.tiers)
                tiers = self._tiers[asked.tiers] = Tiers(question, nodes, snapshot)
        return kind, form, self._columns.fill(asked, kind, form, tiers)

    def _searched(self, asked: PodSet, least: int) -> SetFit:
        """The places that the search finds, which are placed in the trial; at least so many, or none."""
        if self._filling is not None:
            self._filling.settle()
            self._filling = None
            self._forms.clear()
        why = self._decided(asked, asked.count)
        if isinstance(why, kinds.GangGranted):
            return _granted(asked, why, None)
        found = self._decided(asked, least) if least <= why.fits else why
        if isinstance(found, kinds.GangUnsatisfied):
            return SetFit(asked.name, asked.count, (), short=_short(found))
        short = _short(why)
        if len(found.seats) < why.fits and why.reason == kinds.UNPLACED:
            tried = f"{len(found.seats)} of {counted(asked.count, 'pod')} have a place; by counting"
            short = Short(why.reason, f"{tried}, {why.message}", why.short)
        return _granted(asked, found, short)

    def _decided(self, asked: PodSet, least: int) -> kinds.GangGranted | kinds.GangUnsatisfied:
        question = self._question(asked, least)
        return decide_gang(question, self._trial, steps=self._steps, budget=self._budget)

    def _question(self, asked: PodSet, least: int) -> kinds.GangQuestion:
        named = self._named.get(asked.name, ())
        held = tuple(claim for claim in named if claim.allocation is not None)
        shared = tuple(claim for claim in named if claim.allocation is None)
        members = tuple(
            kinds.Member(asked.pod_at(number), (*asked.claims_at(number), *shared), held)
            for number in range(asked.count)
        )
        key = GangKey(asked.pod.key.namespace, GangSource.ANNOTATION, asked.name)
        return kinds.GangQuestion(key, members, least, asked.tiers)


def _short(why: kinds.GangUnsatisfied) -> Short:
    return Short(why.reason, why.message, why.short)


def _granted(asked: PodSet, found: kinds.GangGranted, short: Short | None) -> SetFit:
    seats = tuple(
        Seat(seat.node, tuple(one.id for plan in seat.plans for one in plan.allocation.devices.results))
        for seat in found.seats
    )
    domain = tuple((tier.key, value) for tier, value in found.domain)
    return SetFit(asked.name, asked.count, seats, domain, short)
