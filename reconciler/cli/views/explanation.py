"""What `explain` prints for people: a funnel with bars, what is short, the nearest misses, the remedy."""

from collections.abc import Iterator
from typing import TextIO

from reconciler.allocation.reasons.explanation import Explanation, Request, Shortage, Step
from reconciler.allocation.reasons.kinds import Kind
from reconciler.cli.common.output import console_on, say

BAR = 24
MOST_SHORTAGES = 5
_ON_NODES = frozenset({Kind.ALIGNMENT, Kind.PARTITION})
"""Gates of which the nodes are told"""


def print_explanation(told: Explanation, out: TextIO) -> None:
    """One decision: what it came to, each request with its funnel, and what to do."""
    console = console_on(out)
    block = _block(out)
    say(console, _head(told))
    for request in told.requests:
        say(console, "")
        say(console, f"request {request.request} of claim {request.claim} wants {_wanted(request)}")
        for line in (*_funnel(request, block), *_about(request)):
            say(console, line)
    for line in _tail(told):
        say(console, line)


def _block(out: TextIO) -> str:
    try:
        "█".encode(out.encoding or "ascii")
    except UnicodeError:
        return "#"
    return "█"


def _head(told: Explanation) -> str:
    claims = ", ".join(map(str, told.claims))
    subject = f"claim{'s' if len(told.claims) > 1 else ''} {claims}"
    if told.allocatable:
        return f"{subject}: can be allocated on node {told.node}"
    message = told.message
    if len(told.claims) == 1:  # which claim has been said already
        message = message.removeprefix(f"claim {told.claims[0]}, ")
    return f"{subject}: {told.reason}: {message}"


def _wanted(request: Request) -> str:
    if request.wanted is None:
        return "all devices that match"
    return f"{request.wanted} device{'' if request.wanted == 1 else 's'}"


def _funnel(request: Request, block: str) -> Iterator[str]:
    rows = [(request.devices, "all devices")]
    rows += [(step.left, _words(step)) for step in request.funnel]
    for left, words in rows:
        bar = block * _length(left, request.devices)
        yield f"{left:>8}  {bar:<{BAR}}  {words}"


def _words(step: Step) -> str:
    words = step.about + (f", an error on {step.errors}" if step.errors else "")
    if step.kind in _ON_NODES and step.nodes is not None:
        words += f", on {step.nodes or 'no'} node{'' if step.nodes in (0, 1) else 's'}"
    return words + (f" ({step.detail})" if step.detail else "")


def _length(left: int, total: int) -> int:
    """What is left of a bar; never nothing while a device is left."""
    return max(round(BAR * left / total), 1) if left else 0


def _about(request: Request) -> Iterator[str]:
    for names in request.smallest:
        alone = " and ".join(names) or "the nodes: none of them has so many devices at all"
        yield f"stopped by {alone}"
    for shortage in request.shortages[:MOST_SHORTAGES]:
        yield _shortage(shortage)
    more = len(request.shortages) - MOST_SHORTAGES
    if more > 0:
        yield f"and {more} more counters are short"
    for failing in request.failing:
        yield f"error: {failing}"


def _shortage(short: Shortage) -> str:
    by = f", held by {', '.join(map(str, short.holders))}" if short.holders else ""
    others = f", the best of {short.devices} devices" if short.devices > 1 else ""
    return (
        f"short {short.short} {short.counter} in counter set {short.set} of {short.pool}: "
        f"{short.device.device} draws {short.wanted}, {short.left} left{others}{by}"
    )


def _tail(told: Explanation) -> Iterator[str]:
    if told.allocatable:
        return
    yield ""
    if told.constraints:
        yield f"without the constraint on {' or '.join(told.constraints)} it could be allocated"
    if told.preferences:
        yield f"without {' or '.join(told.preferences)} it could be allocated"
    if len(told.conflict) > 1:
        names = ", ".join(f"{key} {name}" for key, name in told.conflict)
        yield f"these requests cannot be met together: {names}"
    for miss in told.nearest:
        yield f"nearest miss: {miss}"
    yield f"what to do: {told.remedy}"
