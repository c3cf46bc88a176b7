"""What `explain` finds out about a claim or pod, and how that is printed."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, TextIO

from reconciler.allocation.reasons.explanation import Explanation, Kind, Request, Step
from reconciler.api.objects.claims import Allocation, ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted, Unsatisfied
from reconciler.api.objects.similar_names import similar_key
from reconciler.cli.output import Console, counted, plain, print_line, wrapped
from reconciler.state.devices.snapshot import Snapshot


class AllocationQuestion(NamedTuple):
    """The input of one allocation, and its result if it was decided."""

    claims: Sequence[ResourceClaim]
    snapshot: Snapshot
    nodes: Collection[str] | None
    answer: Granted | Unsatisfied | None = None


class Situation(NamedTuple):
    """The questions about a claim or pod; if there are none, a message."""

    questions: Sequence[AllocationQuestion] = ()
    explanations: Sequence[Explanation] = ()
    """Instead of questions, for pods that request devices of a plugin"""
    message: str = ""
    allocated: bool = False
    """Without questions: whether nothing is pending"""
    known: bool = True
    """Whether the claim or pod exists"""
    notes: Sequence[str] = ()


def without_questions(
    key: ObjectKey,
    claims: Mapping[ObjectKey, ResourceClaim],
    pods: Mapping[ObjectKey, Pod],
    *,
    of_pod: bool,
) -> Situation:
    """Say why there is nothing to decide: it is allocated, its pods have finished, or it does not exist."""
    if of_pod and key in pods:
        return Situation(message=_of_pod(pods[key], claims), allocated=True)
    if of_pod or key not in claims:
        hint = "" if of_pod or key not in pods else "; there is a pod of that name; use --pod to explain it"
        hint = hint or similar_key(key, pods if of_pod else claims)
        return Situation(message=f"there is no {'pod' if of_pod else 'claim'} {key}{hint}", known=False)
    allocation = claims[key].allocation
    if allocation is not None:
        return Situation(message=f"allocated: {_devices(allocation)}", allocated=True)
    return Situation(message="not pending: the claim is being deleted, or its pods have finished")


def made_by_scheduler(claim: ObjectKey) -> str:
    """A note on a special claim: nobody else can make it."""
    return (
        f"claim {claim} does not exist yet: kube-scheduler makes it for the extended resources of the pod, "
        "once `run` has chosen the node and removed the gate"
    )


def _of_pod(pod: Pod, claims: Mapping[ObjectKey, ResourceClaim]) -> str:
    """The devices of a pod without pending claims."""
    names = dict.fromkeys(pod.claim_names().values())
    named = (claims.get(ObjectKey(pod.key.namespace, name)) for name in names if name is not None)
    held = [
        f"{claim.key.name}: {_devices(claim.allocation)}"
        for claim in named
        if claim is not None and claim.allocation is not None
    ]
    return f"allocated: {'; '.join(held)}" if held else "the pod has no pending claims"


def _devices(allocation: Allocation) -> str:
    devices = (f"{device.id} for request {device.request}" for device in allocation.devices.results)
    return ", ".join(devices) or "no devices"


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
    if len(explanation.conflict) > 1:
        names = ", ".join(f"{key} {name}" for key, name in explanation.conflict)
        yield f"these requests cannot be met together: {names}"
    yield from (f"decided by {short}" for short in explanation.deciding)
    for miss in explanation.nearest:
        yield f"nearest miss: {miss}"
    yield f"what to do: {explanation.remedy}"
