"""Answers one question: devices that this controller owns, or a refusal with its reason."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile

from msgspec import Struct

from kernels.types import Amounts
from reconciler.allocation.alignment.deciding import decide
from reconciler.allocation.alignment.preferences import has_preferences, preferences_of
from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.dra.batch import allocate_batch
from reconciler.allocation.dra.budget import UNLIMITED, Budget, Fatal
from reconciler.allocation.dra.node_attempt import only_rows
from reconciler.allocation.dra.preferred import prefers
from reconciler.allocation.dra.selector_masks import evaluate_all_selectors
from reconciler.api.migrate.special_claims import REMEDY, UNSAFE
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted, Reason, RequestCount, Unsatisfied
from reconciler.control.handler import Decide
from reconciler.control.ownership import Ownership
from reconciler.control.planner import NOT_OURS
from reconciler.control.special_claims import selected_drivers
from reconciler.state.devices.snapshot import NodeSubset, Snapshot
from reconciler.state.nominations import HeldPlace

QuestionKey = tuple[tuple[tuple[str, ...], ...], NodeSubset | None]
"""What an answer depends on besides the snapshot: specs and preferences of the claims, and the nodes."""


GaveUpOn = Callable[[Sequence[ResourceClaim], Snapshot, Unsatisfied], None]
"""Gets the claims that a search gave up, from any thread; does no I/O itself"""


class Refusal(Struct, frozen=True):
    """No devices in the present state of the cluster."""

    reason: str
    message: str
    room: bool
    """Whether a freed device may change the answer"""
    nodes: int = 0
    steps: int = 0
    counts: tuple[RequestCount, ...] = ()


class Decider:
    """Answers questions. Caches refusals until the snapshot changes.

    A freed device wakes all pending units. Most have the same question, so one search answers all.
    """

    def __init__(self, ours: Ownership, *, steps: int, gave_up: GaveUpOn = lambda *_: None) -> None:
        """`steps` limits one search."""
        self._ours = ours
        self._steps = steps
        self._gave_up = gave_up
        self._refused: dict[QuestionKey, str] = {}
        self._version = -1

    def answer(self, question: Decide, snapshot: Snapshot, budget: Budget = UNLIMITED) -> Granted | Refusal:
        """Devices for all claims of a question together, or a refusal. Raises Unfinished as `budget` does."""
        answer = self.find(question, snapshot, budget)
        if isinstance(answer, Refusal):
            self.remember(question, snapshot, answer)
        return answer

    def answer_batch(
        self, questions: Sequence[Decide], snapshot: Snapshot, room: Amounts | None
    ) -> list[Granted]:
        """Devices for the first of some questions about equal claims on equal nodes: what `answer` gives one
        after the other. `is_first_fit` must be true of each. The question after them must be asked by itself.

        `room` is that of `allocation.dra.batch.places`.
        """
        claims, nodes = [question.claims[0] for question in questions], questions[0].nodes
        found = allocate_batch(claims, snapshot, nodes=nodes, room=room, steps=self._steps)
        ours = takewhile(lambda pair: self._trespass(*pair) is None, zip(questions, found, strict=False))
        return [granted for _, granted in ours]

    @staticmethod
    def is_first_fit(question: Decide, snapshot: Snapshot) -> bool:
        """Whether the answer is the first fit, and depends on one claim's spec, nodes and devices only."""
        return (
            len(question.claims) == 1
            and question.together is None
            and question.charging is None
            and question.policies.first_fit
            and not prefers(question.room)
            and not has_preferences(question.claims, snapshot.classes)
        )

    def find(self, question: Decide, snapshot: Snapshot, budget: Budget) -> Granted | Refusal:
        """The same as `answer` without the cache, for another thread with its own fork of a snapshot."""
        if question.expected is not None:
            found = self._at(question.expected, question, snapshot, budget)
            if found is not None and self._trespass(question, found) is None:
                return found
        answer = self._decide(question.claims, question, snapshot, budget)
        if isinstance(answer, Unsatisfied):
            if answer.reason is Reason.GAVE_UP:
                self._gave_up(question.claims, snapshot, answer)
            return _refusal(answer)
        if question.special:
            return self._unsafe(question, snapshot) or answer
        trespass = self._trespass(question, answer)
        if trespass is None:
            return answer
        # It contains a device that is not ours. Search again among ours.
        claims = tuple(self._ours.restricted(claim) for claim in question.claims)
        evaluate_all_selectors(claims, snapshot, lambda: True)  # quick: others are cached
        other = self._decide(claims, question, snapshot, budget)
        if isinstance(other, Unsatisfied) or self._trespass(question, other) is not None:
            return trespass
        return other

    def _unsafe(self, question: Decide, snapshot: Snapshot) -> Refusal | None:
        """Why kube-scheduler may take devices that are not ours for its claim; None if it cannot."""
        if self._ours.alone:
            return None
        for name, drivers in selected_drivers(question.claims[-1], snapshot).items():
            foreign = sorted(drivers - self._ours.drivers) if name not in self._ours.classes else []
            if foreign:
                why = f"class {name} also selects devices of driver {foreign[0]}, which is not ours; {REMEDY}"
                return Refusal(UNSAFE, why, room=False)
        return None

    def _at(self, place: HeldPlace, question: Decide, snapshot: Snapshot, budget: Budget) -> Granted | None:
        """The devices that are held for a pod; None if it cannot have them."""
        if question.nodes is not None and place.node not in question.nodes:
            return None
        rows = {row for device in place.devices for row in snapshot.fleet.rows_of(device)}
        try:
            only = only_rows(question.claims, rows, snapshot)
        except Fatal:
            return None
        found = decide(
            question.claims,
            snapshot,
            nodes=[place.node],
            steps=self._steps,
            budget=budget,
            companions=question.together,
            charging=question.charging,
            only=only,
        )
        return found if isinstance(found, Granted) else None

    def _decide(
        self, claims: tuple[ResourceClaim, ...], question: Decide, snapshot: Snapshot, budget: Budget
    ) -> Granted | Unsatisfied:
        if self.is_first_fit(question, snapshot):  # as of most: nothing else counts
            return allocate(claims, snapshot, nodes=question.nodes, steps=self._steps, budget=budget)
        policy = question.policies.of(claims, snapshot, budget)
        answer = decide(
            claims,
            snapshot,
            nodes=question.nodes,
            steps=self._steps,
            budget=budget,
            companions=question.together,
            charging=question.charging,
            policy=policy,
            pod=question.room,
        )
        if policy is None or isinstance(answer, Unsatisfied):
            return answer
        return replace(answer, policy=policy.name)

    def remember(self, question: Decide, snapshot: Snapshot, refusal: Refusal) -> None:
        """Refuse the same question without a search while this snapshot is current."""
        if question.together is not None:  # its answer depends on more than the snapshot
            return
        self._forget_before(snapshot.version)
        self._refused[_key_of(question)] = refusal.reason

    def refuses(self, question: Decide, snapshot: Snapshot) -> str | None:
        """The reason why the same question was refused from the same snapshot, if it was."""
        self._forget_before(snapshot.version)
        known = self._refused and question.together is None
        return self._refused.get(_key_of(question)) if known else None

    def _forget_before(self, version: int) -> None:
        if version != self._version:
            self._version = version
            self._refused.clear()

    def _trespass(self, question: Decide, answer: Granted) -> Refusal | None:
        for plan, claim in zip(answer.plans, question.claims, strict=True):
            if (why := self._ours.trespass(claim, plan.allocation)) is not None:
                return Refusal(NOT_OURS, f"claim {claim.key}: {why}", room=True, steps=answer.steps)
        return None


def _key_of(question: Decide) -> QuestionKey:
    return tuple(
        (claim.spec.model_dump_json(), *preferences_of(claim), str(claim.is_special))
        for claim in question.claims
    ), question.nodes


def _refusal(answer: Unsatisfied) -> Refusal:
    return Refusal(
        reason=str(answer.reason),
        message=answer.message,
        room=not answer.reason.is_error,
        nodes=answer.nodes,
        steps=answer.steps,
        counts=answer.counts,
    )
