"""`dra-reconciler allocate`: allocate the claims in manifests, without a cluster."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, TextIO

import click

from reconciler.allocation.dra.budget import STEPS
from reconciler.allocation.pod_devices import PodGrant
from reconciler.allocation.policies.selection import Policies
from reconciler.api.manifests.inferred_nodes import InferredNodes
from reconciler.api.objects.claims import AllocatedDevice
from reconciler.api.objects.plan import Granted, Plan
from reconciler.api.objects.selectors import NodeSelector, NodeSelectorRequirement
from reconciler.api.objects.semantics import Semantics
from reconciler.cli import output as printing
from reconciler.cli import rule_options
from reconciler.cli.exits import exit_unless
from reconciler.cli.input import read_files
from reconciler.cli.options import FOR_PEOPLE, manifest_options, output_option, strict_option
from reconciler.control.offline import Answer, PodReport, Report, decide
from reconciler.errors import counted


@click.command()
@manifest_options
@strict_option
@output_option(
    "table",
    "wide",
    "name",
    "yaml",
    "json",
    explained="table; wide adds columns; name, yaml and json are what `run` would write.",
)
@rule_options.koordinator_semantics_option(default="proposal")
@partial(rule_options.release_and_rules_options, in_cluster=False)
@rule_options.steps_option(STEPS)
@rule_options.policy_options
def allocate(
    files: tuple[str, ...],
    output: str,
    rules: Semantics,
    steps: int,
    koordinator_semantics: str,
    policies: Policies,
) -> None:
    """Allocate the claims in manifests, without a cluster.

    Reads ResourceSlices, DeviceClasses, ResourceClaims, ResourceClaimTemplates, DeviceTaintRules, Nodes and
    Pods; ignores other kinds. Claims that are already allocated keep their devices. All claims of a pod are
    allocated together, for one node; other claims one by one. The order is: pods with higher priority, then
    older objects, then names; objects without a creation timestamp count as youngest. As in `run`, a pod
    cannot use nodes that are cordoned, tainted or too full for it.

    Input without Node objects has the nodes that the slices name. If node selectors match none of the
    nodes, one more node is assumed, with labels that match as many of these selectors as possible.

    Pods that request devices of Koordinator's Device objects are also served: the table shows their shares,
    and wide the annotation that records them; yaml and json contain the pods. Pods with this annotation keep
    their devices.

    \b
    Examples:
      dra-reconciler allocate -f manifests/
      dra-reconciler allocate -f manifests/ -o yaml
    """
    if not files:
        raise click.UsageError("No input: name manifests with -f FILE, -f DIR or -f -.")
    with printing.track_progress(quiet=output not in FOR_PEOPLE) as progress:
        bundle = read_files(files, progress)
        progress.stage("allocating claims")
        options = {"koordinator_semantics": koordinator_semantics}
        report = decide(
            bundle, rules, steps=steps, policies=policies, options=options, on_question=progress.step
        )
        devices = report.devices
    if output in FOR_PEOPLE:
        wide = output == "wide"
        if devices is None or report.answers or report.held:
            print_report(report, sys.stdout, wide=wide)
        if devices is not None:
            _print_devices(devices, sys.stdout, wide=wide)
    elif output == "name":
        given = [
            printing.object_name("Pod", one.pod.key.name)
            for one in (devices.given if devices is not None else ())
        ]
        for name in (*names_of(report), *given):
            click.echo(name)
    else:
        for line in (*refusals(report), *notes(report)):
            printing.remark(line)
        claims = report.allocated(datetime.now(UTC))
        if devices is not None:
            for line in _lines(devices):
                printing.remark(line)
            entries = bundle.entries["Pod"] if devices.given else {}
            claims += [_written(entries[given.pod.key].raw, given) for given in devices.given]
        click.echo(printing.as_documents(claims) if output == "yaml" else printing.as_list(claims), nl=False)
    exit_unless(not (report.waiting or (devices is not None and devices.refused)))


def print_report(report: Report, out: TextIO, *, wide: bool) -> None:
    """Print the devices of each claim, why other claims are pending, and notes about pools and nodes."""
    console = printing.Console(out)
    if report.granted:
        printing.print_table(console, _table(report, wide=wide), wide=wide)
    for line in (*_aligned(report), *_gangs(report), *refusals(report), *notes(report), _summary(report)):
        printing.print_line(console, line)


def _print_devices(report: PodReport, out: TextIO, *, wide: bool) -> None:
    """Print what pods get of the devices of plugins, why other pods are pending, and invalid objects."""
    console = printing.Console(out)
    if report.given:
        # Wide also has what records all devices of the pod.
        table = printing.Table(("POD", "NODE", "DEVICE", "SHARE", *(["ANNOTATION"] if wide else [])), names=2)
        for given in report.given:
            for device, share in given.shares:
                table.add((str(given.pod.key), given.node, device, share, *((given.text,) if wide else ())))
        printing.print_table(console, table, wide=wide)
    pending = f", {len(report.refused)} pending" if report.refused else ""
    for line in (*_lines(report), f"{counted(len(report.given), 'pod')} allocated{pending}"):
        printing.print_line(console, line)


def _lines(report: PodReport) -> Iterator[str]:
    """Yield why pods are pending, and what could not be read."""
    yield from (f"not allocated: pod {key}: {why.message}" for key, why in report.refused)
    yield from report.notes


def _written(raw: Mapping[str, Any], given: PodGrant) -> dict[str, Any]:
    """A pod with its devices, as `run` would write it."""
    # Late import: the server imports HTTP, which is slow.
    from reconciler.embedded.bodies import apply_json_patch  # noqa: PLC0415

    pod = apply_json_patch(dict(raw), given.patch)
    assert isinstance(pod, dict)
    if pod["spec"].get("schedulingGates") == []:
        del pod["spec"]["schedulingGates"]
    return pod


def names_of(report: Report) -> Iterator[str]:
    """The allocated claims, as kubectl names them."""
    yield from (
        printing.object_name("ResourceClaim", plan.claim.name)
        for granted in report.granted
        for plan in granted.plans
    )


def _table(report: Report, *, wide: bool) -> printing.Table:
    """A row for each device; wide also has the pod that the claim was decided for."""
    table = printing.Table(("CLAIM", "REQUEST", "DEVICE", "NODE", *(["POD"] if wide else [])))
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
    for gang, found in report.gangs:
        domain = "".join(f", all in {tier.key}={value}" for tier, value in found.domain)
        nodes = ", ".join(f"{seat.pod.name} on {seat.node}" for seat in found.seats)
        yield f"gang {gang}: {counted(len(found.seats), 'pod')} placed{domain}: {nodes}"


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
    if pods := sum(not answer.claims for answer in report.waiting):
        parts.append(f"{counted(pods, 'pod')} pending")
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
    yield from report.special
    if report.answers:
        yield from _node_notes(report.nodes)


def _node_notes(picture: InferredNodes) -> Iterator[str]:
    if picture.named:
        yield f"nodes without a Node object: {_some(picture.named)}"
    if picture.gone:
        yield f"no device of nodes that are not among the Node objects is given: {_some(picture.gone)}"
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
