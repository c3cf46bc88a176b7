"""Answers how many pods of each set fit together: by columns where that is possible, else by the search."""

from collections.abc import Hashable

from reconciler.allocation.dra.budget import UNLIMITED, Budget
from reconciler.allocation.gangs import decide_gang
from reconciler.allocation.gangs.kinds import Kind, company_of, kind_of, likeness
from reconciler.allocation.gangs.question import GangGranted, GangQuestion, GangUnsatisfied, Member
from reconciler.allocation.gangs.tiers import Tiers
from reconciler.allocation.placement import refusal_reason
from reconciler.analysis.fitting.answer import Fit, Seat, SetFit, Short
from reconciler.analysis.fitting.defaults import STEPS
from reconciler.analysis.fitting.filling import Filled, Filling, Form, NeedsSearch
from reconciler.analysis.fitting.pods import claims_of, pod_of
from reconciler.analysis.fitting.question import FitQuestion, PodSet
from reconciler.analysis.fitting.supposing import suppose
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.gangs import GangKey, GangSource, Tier
from reconciler.errors import Rejected
from reconciler.state.trial import Trial


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
        self._forms: dict[Hashable, tuple[Kind, Form]] = {}
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

    def _filled(self, asked: PodSet) -> tuple[Kind, Form, Filled]:
        """The places that columns find, which are not taken yet. Raises NeedsSearch and Rejected."""
        nodes, snapshot = self._trial.nodes, self._trial.snapshot
        member = Member(asked.pod, asked.claims)
        company = company_of([member], nodes)
        if asked.named or company.crowding:
            raise NeedsSearch
        alike = likeness(member, nodes, company)
        if alike not in self._forms:
            kind = kind_of(member, snapshot)
            self._forms[alike] = kind, self._columns.form_of(kind)
        kind, form = self._forms[alike]
        tiers = None
        if asked.tiers:
            tiers = self._tiers.get(asked.tiers)
            if tiers is None:  # no pod of a batch has a place before, so equal tiers have equal domains
                key = GangKey(asked.pod.key.namespace, GangSource.ANNOTATION, asked.name)
                question = GangQuestion(key, (member,), asked.least, asked.tiers)
                tiers = self._tiers[asked.tiers] = Tiers(question, nodes, snapshot)
        return kind, form, self._columns.fill(asked, kind, form, tiers)

    def _searched(self, asked: PodSet, least: int) -> SetFit:
        """The places that the search finds, which are placed in the trial; at least so many, or none."""
        if self._filling is not None:
            self._filling.settle()
            self._filling = None
            self._forms.clear()
        why = self._decided(asked, asked.count)
        if isinstance(why, GangGranted):
            return _granted(asked, why, None)
        short = Short(why.reason, why.message, why.short)
        if least <= why.fits:
            found = self._decided(asked, least)
            if isinstance(found, GangGranted):
                return _granted(asked, found, short)
        return SetFit(asked.name, asked.count, (), short=short)

    def _decided(self, asked: PodSet, least: int) -> GangGranted | GangUnsatisfied:
        question = self._question(asked, least)
        return decide_gang(question, self._trial, steps=self._steps, budget=self._budget)

    def _question(self, asked: PodSet, least: int) -> GangQuestion:
        named = self._named.get(asked.name, ())
        held = tuple(claim for claim in named if claim.allocation is not None)
        shared = tuple(claim for claim in named if claim.allocation is None)
        members = tuple(
            Member(pod_of(asked, number), (*claims_of(asked, number), *shared), held)
            for number in range(asked.count)
        )
        key = GangKey(asked.pod.key.namespace, GangSource.ANNOTATION, asked.name)
        return GangQuestion(key, members, least, asked.tiers)


def _granted(asked: PodSet, found: GangGranted, short: Short | None) -> SetFit:
    seats = tuple(
        Seat(seat.node, tuple(one.id for plan in seat.plans for one in plan.allocation.devices.results))
        for seat in found.seats
    )
    domain = tuple((tier.key, value) for tier, value in found.domain)
    return SetFit(asked.name, asked.count, seats, domain, short)
