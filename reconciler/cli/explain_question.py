"""The input of `explain -f`: the allocation questions of a claim or pod in manifests."""

from collections.abc import Callable

from reconciler.allocation.policies.selection import Policies
from reconciler.api.manifests.bundle import Bundle
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.cli.explain_situation import AllocationQuestion, Situation, without_questions
from reconciler.control.offline import Question, decide
from reconciler.control.planner import Blocked


def in_manifests(
    bundle: Bundle,
    rules: Semantics,
    key: ObjectKey,
    *,
    of_pod: bool,
    steps: int,
    policies: Policies,
    on_question: Callable[[Question], None] = lambda _: None,
) -> Situation:
    """Return the questions as `allocate` meets them: earlier claims and pods are allocated first.

    `asking` is called with each question before it is decided.
    """
    matching: list[Question] = []
    notes: list[str] = []

    def note(question: Question) -> None:
        on_question(question)
        if question.pod == key if of_pod else any(claim.key == key for claim in question.claims):
            matching.append(question)
            notes.extend(filter(None, [question.left_out()]))

    report = decide(bundle, rules, steps=steps, policies=policies, on_question=note)
    answers = {
        (answer.pod, answer.claims): answer.outcome
        for answer in report.answers
        if not isinstance(answer.outcome, Blocked)
    }
    if matching:
        questions = [
            AllocationQuestion(
                q.claims, q.snapshot, q.nodes, answers.get((q.pod, tuple(c.key for c in q.claims)))
            )
            for q in matching
        ]
        return Situation(questions, notes=notes)
    for answer in report.answers:
        named = answer.pod == key if of_pod else key in answer.claims
        if named and isinstance(answer.outcome, Blocked):
            return Situation(message=f"{answer.reason}: {answer.message}")
    claims = {claim.key: claim for claim in bundle.of(ResourceClaim)}
    return without_questions(key, claims, {pod.key: pod for pod in bundle.of(Pod)}, of_pod=of_pod)
