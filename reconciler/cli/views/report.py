"""The table of `allocate`."""

from collections.abc import Iterator, Sequence
from typing import TextIO

from reconciler.api.manifests.inferred_nodes import InferredNodes
from reconciler.api.objects.claims import AllocatedDevice
from reconciler.api.objects.node_selector import NodeSelector, NodeSelectorRequirement
from reconciler.api.objects.plan import Granted, Plan
from reconciler.cli.common.console import Console
from reconciler.cli.common.output import print_line, print_table
from reconciler.cli.common.plain_text import counted, object_name
from reconciler.cli.common.table import Table
from reconciler.control.offline import Answer, Report


def print_report(report: Report, out: TextIO, *, wide: bool) -> None:
    """Print the devices of each claim, why other claims are pending, and notes about pools and nodes."""
    console = Console(out)
    if report.granted:
        print_table(console, _table(report, wide=wide), wide=wide)
    for line in (*_aligned(report), *_gangs(report), *refusals(report), *notes(report), _summary(report)):
        print_line(console, line)


def names_of(report: Report) -> Iterator[str]:
    """The allocated claims, as kubectl names them."""
    yield from (
        object_name("ResourceClaim", plan.claim.name) for granted in report.granted for plan in granted.plans
    )


def _table(report: Report, *, wide: bool) -> Table:
    """A row for each device; wide also has the pod that the claim was decided for."""
    table = Table(("CLAIM", "REQUEST", "DEVICE", "NODE", *(["POD"] if wide else [])))
    for answer in report.answers:
        if isinstance(answer.outcome, Granted):
            more = (str(answer.pod or "-"),) if wide else ()
            for plan in answer.outcome.plans:
                for request, device in _devices(plan):
                    table.add((str(plan.claim), request, device, plan.node, *more))
    return table


def _devices(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield each device with its request; a placeholder for a claim without requests."""
    yield from ((device.request, _device(device)) for device in plan.allocation.devices.results)
    if not plan.allocation.devices.results:
        yield "-", "-"


def _device(device: AllocatedDevice) -> str:
    consumed = ", ".join(f"{key}={amount}" for key, amount in device.consumed_capacity.items())
    admin = " admin access" if device.admin_access else ""
    return f"{device.id}{admin}{f' ({consumed})' if consumed else ''}"


def _aligned(report: Report) -> Iterator[str]:
    """Yield the tiers that the devices share, for claims that request alignment."""
    for granted in report.granted:
        for plan in granted.plans:
            yield from (f"aligned: claim {plan.claim}: {tiers}" for _, tiers in plan.annotations)


def _gangs(report: Report) -> Iterator[str]:
    """Yield the nodes of each gang that was placed."""
    for found in report.gangs:
        domain = "".join(f", all in {key}={value}" for key, value in found.domain)
        nodes = ", ".join(f"{pod.name} on {node}" for pod, node in found.places)
        pods = counted(len(found.places), "pod")
        yield f"gang {found.gang}: {pods} placed{domain}: {nodes}"


def refusals(report: Report) -> Iterator[str]:
    """Yield why claims are not allocated, one line for claims that were decided together."""
    yield from (_why(answer) for answer in report.waiting)


def _why(answer: Answer) -> str:
    claims = ", ".join(str(key) for key in answer.claims)
    subject = f"claim{'s' if len(answer.claims) > 1 else ''} {claims}" if claims else ""
    pod = f"pod {answer.pod}" if answer.pod else ""
    both = f"{subject} of {pod}" if subject and pod else subject or pod
    message = answer.message
    if len(answer.claims) == 1:  # the subject names the claim
        message = message.removeprefix(f"claim {answer.claims[0]}, ")
    return f"not allocated: {both}: {message}"


def _summary(report: Report) -> str:
    granted = sum(len(outcome.plans) for outcome in report.granted)
    parts = [f"{counted(granted, 'claim')} allocated"]
    pending = {key for answer in report.waiting for key in answer.claims}
    if report.waiting:
        parts.append(f"{len(pending)} pending")
    if report.held:
        parts.append(f"{len(report.held)} already allocated")
    return ", ".join(parts)


def notes(report: Report) -> Iterator[str]:
    """Yield notes about unusable slices and pools, and about assumed nodes."""
    if report.nowhere:
        fields = "nodeName, nodeSelector, allNodes or perDeviceNodeSelection"
        yield f"slices that no node can use, without {fields}: {_some(report.nowhere)}"
    for pool, problem in report.unusable.items():
        yield f"pool {pool} cannot be used: {problem}"
    if report.answers:
        yield from _node_notes(report.nodes)


def _node_notes(picture: InferredNodes) -> Iterator[str]:
    if picture.named:
        yield f"nodes without a Node object: {_some(picture.named)}"
    if picture.assumed is not None:
        labels = ", ".join(f"{key}={value}" for key, value in picture.assumed.metadata.labels.items())
        yield f"node {picture.assumed.key.name} is not in the input; its labels are assumed: {labels}"
    if picture.unmatched:
        selectors = _some([_selector(selector) for selector in picture.unmatched])
        yield f"node selectors that match no node: {selectors}"


def _some(names: Sequence[str], limit: int = 10) -> str:
    shown = "; ".join(names[:limit])
    return f"{shown}; and {len(names) - limit} more" if len(names) > limit else shown


def _selector(selector: NodeSelector) -> str:
    terms = [
        " and ".join(_requirement(r) for r in (*term.match_expressions, *term.match_fields)) or "nothing"
        for term in selector.node_selector_terms
    ]
    return " or ".join(terms) or "nothing"


def _requirement(requirement: NodeSelectorRequirement) -> str:
    values = f" [{', '.join(requirement.values)}]" if requirement.values else ""
    return f"{requirement.key} {requirement.operator}{values}"
