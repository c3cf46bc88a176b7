"""What `explain` finds out about a claim or pod, and how that is printed."""

from collections.abc import Iterator
from typing import TextIO

from reconciler.allocation.reasons.explanation import Explanation, Kind, Request, Step
from reconciler.cli.output import Console, plain, print_line, wrapped
from reconciler.errors import counted

BAR = 24
WORDS_INDENT = 10
"""Of words below their bar: as far as the number reaches"""
_ON_NODES = frozenset({Kind.ALIGNMENT, Kind.PARTITION})
"""Gates that show the number of nodes"""


def print_explanation(explanation: Explanation, out: TextIO) -> None:
    """Print a decision: its result, each request with its funnel, and what to do."""
    console = Console(out)
    block = _block(out)
    print_line(console, _head(explanation))
    for request in explanation.requests:
        console.print()
        owner = "pod" if explanation.pod is not None else "claim"
        print_line(console, f"request {request.request} of {owner} {request.claim} needs {_wanted(request)}")
        for line in _funnel(request, block, console.width):
            console.print(line)
        for line in request.sentences():
            print_line(console, line)
    for line in _tail(explanation):
        print_line(console, line)


def _block(out: TextIO) -> str:
    try:
        "█".encode(out.encoding or "ascii")
    except UnicodeError:
        return "#"
    return "█"


def _head(explanation: Explanation) -> str:
    claims = ", ".join(map(str, explanation.claims))
    subject = f"claim{'s' if len(explanation.claims) > 1 else ''} {claims}"
    if explanation.pod is not None:
        subject = f"pod {explanation.pod}"
    if explanation.allocatable:
        return f"{subject}: can be allocated on node {explanation.node}"
    message = explanation.message
    if len(explanation.claims) == 1:  # the subject names the claim
        message = message.removeprefix(f"claim {explanation.claims[0]}, ")
    return f"{subject}: {explanation.reason}: {message}"


def _wanted(request: Request) -> str:
    if request.wanted is None:
        return "all matching devices"
    return counted(request.wanted, "device")


def _funnel(request: Request, block: str, width: int) -> Iterator[str]:
    """A number, a bar and words for each gate. Words that are too long for their place follow below."""
    rows = [(request.devices, "all devices")]
    rows += [(step.left, plain(_words(step))) for step in request.funnel]
    for left, words in rows:
        bar = block * _length(left, request.devices)
        start = f"{left:>8}  {bar:<{BAR}}  "
        parts = wrapped(words, width - len(start))
        if all(len(part) <= width - len(start) for part in parts):
            yield start + parts[0]
            yield from (" " * len(start) + part for part in parts[1:])
        else:
            yield start.rstrip()
            yield from (" " * WORDS_INDENT + part for part in wrapped(words, width - WORDS_INDENT))


def _words(step: Step) -> str:
    words = step.about + (f", error on {step.errors}" if step.errors else "")
    if step.kind in _ON_NODES and step.nodes is not None:
        words += f", on {counted(step.nodes, 'node') if step.nodes else 'no node'}"
    return words + (f" ({step.detail})" if step.detail else "")


def _length(left: int, total: int) -> int:
    """The length of a bar; at least 1 if a device remains."""
    return max(round(BAR * left / total), 1) if left else 0


def _tail(explanation: Explanation) -> Iterator[str]:
    if explanation.allocatable:
        return
    yield ""
    if explanation.constraints:
        yield f"without the constraint on {' or '.join(explanation.constraints)} it could be allocated"
    if explanation.preferences:
        yield f"without {' or '.join(explanation.preferences)} it could be allocated"
    parts = (*explanation.conflict, *explanation.conflicting)
    if len(parts) > 1:
        yield f"these cannot hold together: {', '.join(f'{key} {text}' for key, text in parts)}"
    yield from (f"decided by {short}" for short in explanation.deciding)
    for miss in explanation.nearest:
        yield f"nearest miss: {miss}"
    yield f"what to do: {explanation.remedy}"
