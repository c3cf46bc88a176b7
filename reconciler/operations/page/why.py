"""Explains why one claim or pod waits. Explanations are dear: they get a bounded part of the time."""

from collections.abc import Iterator

from reconciler.allocation.reasons.explanation import Explanation, Request
from reconciler.api.objects.meta import ObjectKey
from reconciler.operations.page.names import shown
from reconciler.operations.page.overview import BAR
from reconciler.operations.page.sources import Question, Sources

SHARE = 0.05
"""Part of the time that goes into explaining for people, at most"""
LONGEST = 800
"""Characters of a sentence"""


class Busy(Exception):
    """Explained enough for now."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"ask again in {seconds:.1f} s")
        self.seconds = seconds


class Explainer:
    """Answers one question after the other, with pauses between them."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._next = float("-inf")

    def answer(self, question: Question) -> Explanation | None:
        """None where no device is in question. Raises Busy when it is not time yet."""
        began = self._sources.clock()
        if began < self._next:
            raise Busy(self._next - began)
        try:
            return self._sources.explain(question)
        finally:
            ended = self._sources.clock()
            self._next = ended + (ended - began) * (1 / SHARE - 1)


def values(question: Question, told: Explanation | None) -> dict[str, object]:
    """What the template is told."""
    named = f"{question.kind} {shown(str(question.key))}"
    if told is None:
        nothing = (
            "Nothing is to be decided about it now: it may be allocated, gone, or wait for something else."
        )
        return {"named": named, "told": None, "nothing": nothing}
    message = told.message or (f"On node {told.node}." if told.node else "")
    return {
        "named": named,
        "told": told,
        "message": shown(message, LONGEST),
        "together": ", ".join(f"{shown(str(key))} {shown(name)}" for key, name in told.conflict),
        "requests": [_request(request, told) for request in told.requests],
        "nearest": [shown(str(miss), LONGEST) for miss in told.nearest],
    }


def question(kind: str, namespace: str, name: str) -> Question | None:
    """What is asked for; None if that is no name."""
    if kind not in ("claim", "pod") or not name or len(name) > 253 or len(namespace) > 253:
        return None
    return Question(kind, ObjectKey(namespace, name))


def _request(request: Request, told: Explanation) -> dict[str, object]:
    steps = [{"about": "all devices", "detail": "", "left": request.devices, "width": BAR}]
    for step in request.funnel:
        errors = f"an error on {step.errors}" if step.errors else ""
        detail = "; ".join(filter(None, [errors, step.detail]))
        width = BAR * step.left / max(request.devices, 1)
        about = shown(step.about, LONGEST)
        steps.append({"about": about, "detail": shown(detail, LONGEST), "left": step.left, "width": width})
    return {
        "name": shown(request.request),
        "owner": "claim" if request.claim in told.claims else "pod",
        "claim": shown(str(request.claim)),
        "wanted": "all that match" if request.wanted is None else request.wanted,
        "steps": steps,
        "lines": [shown(line, LONGEST) for line in _lines(request)],
    }


def _lines(request: Request) -> Iterator[str]:
    for names in request.smallest:
        yield f"Stopped by {' and '.join(names) or 'the nodes: none of them has so many devices at all'}."
    for short in request.shortages[:5]:
        by = f", held by {', '.join(map(str, short.holders))}" if short.holders else ""
        yield (
            f"Short {short.short} {short.counter} in counter set {short.set} of {short.pool}: "
            f"{short.device.device} draws {short.wanted}, {short.left} left{by}."
        )
    for failing in request.failing:
        yield f"Error: {failing}"
