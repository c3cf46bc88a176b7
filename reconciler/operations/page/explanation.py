"""Explains why a claim or pod is pending. Explanations are slow, so they get a limited share of the time."""

from reconciler.allocation.reasons.explanation import Explanation, Request
from reconciler.api.objects.meta import ObjectKey
from reconciler.operations.page.fleet import BAR
from reconciler.operations.page.query import shown
from reconciler.operations.page.sources import Question, Sources

SHARE = 0.05
"""Maximum part of the time that is spent on explanations"""
LONGEST = 800
"""Characters of a sentence"""


class Busy(Exception):
    """The time for explanations is used up for now."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"retry in {seconds:.1f} s")
        self.seconds = seconds


class Explainer:
    """Answers one question at a time, with pauses between them."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._next = float("-inf")

    def answer(self, question: Question) -> Explanation | None:
        """None if there is nothing to decide. Raises Busy during the pause."""
        began = self._sources.clock()
        if began < self._next:
            raise Busy(self._next - began)
        try:
            return self._sources.explain(question)
        finally:
            ended = self._sources.clock()
            self._next = ended + (ended - began) * (1 / SHARE - 1)


def explanation_values(question: Question, explanation: Explanation | None) -> dict[str, object]:
    """The values of the template."""
    named = f"{question.kind} {shown(str(question.key))}"
    if explanation is None:
        nothing = "There is nothing to decide: it may be allocated, deleted, or pending for another reason."
        return {"named": named, "explanation": None, "nothing": nothing}
    message = explanation.message or (f"On node {explanation.node}." if explanation.node else "")
    return {
        "named": named,
        "explanation": explanation,
        "message": shown(message, LONGEST),
        "together": [
            f"{shown(str(key))} {shown(text)}"
            for key, text in (*explanation.conflict, *explanation.conflicting)
        ],
        "requests": [_request(request, explanation) for request in explanation.requests],
        "deciding": [shown(str(short), LONGEST) for short in explanation.deciding],
        "nearest": [shown(str(miss), LONGEST) for miss in explanation.nearest],
    }


def question_of(kind: str, namespace: str, name: str) -> Question | None:
    """The question of a request; None if it has no valid name."""
    if kind not in ("claim", "pod") or not name or len(name) > 253 or len(namespace) > 253:
        return None
    return Question(kind, ObjectKey(namespace, name))


def _request(request: Request, explanation: Explanation) -> dict[str, object]:
    steps = [{"about": "all devices", "detail": "", "left": request.devices, "width": BAR}]
    for step in request.funnel:
        errors = f"errors on {step.errors} devices" if step.errors else ""
        detail = "; ".join(filter(None, [errors, step.detail]))
        width = BAR * step.left / max(request.devices, 1)
        about = shown(step.about, LONGEST)
        steps.append({"about": about, "detail": shown(detail, LONGEST), "left": step.left, "width": width})
    return {
        "name": shown(request.request),
        "owner": "claim" if request.claim in explanation.claims else "pod",
        "claim": shown(str(request.claim)),
        "wanted": "all that match" if request.wanted is None else request.wanted,
        "steps": steps,
        "lines": [shown(line, LONGEST) for line in request.sentences()],
    }
