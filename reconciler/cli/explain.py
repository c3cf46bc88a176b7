"""`dra-reconciler explain`: why a claim waits, from manifests or from a cluster."""

import asyncio
import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import click
import yaml

from reconciler.cli.funnels import print_explanation
from reconciler.cli.inputs import (
    files_option,
    gates_option,
    group_mode_option,
    report_refused,
    report_warnings,
)
from reconciler.cli.listing import list_objects
from reconciler.cli.plain import plain
from reconciler.errors import ReconcilerError
from reconciler.explain import Explanation
from reconciler.explain import explain as explain_claims
from reconciler.explain.report import as_json
from reconciler.manifests.bundle import Bundle, bundle, read_bundle
from reconciler.manifests.documents import Document
from reconciler.manifests.origin import Origin
from reconciler.objects.claims import Allocation, ResourceClaim
from reconciler.objects.core import Pod
from reconciler.objects.meta import ObjectKey
from reconciler.objects.semantics import Release, Semantics, with_group_modes
from reconciler.offline import STEPS, Blocked, Question, Report, decide

CANNOT, NO_ANSWER = 1, 2
KINDS = ("ResourceSlice", "DeviceClass", "ResourceClaim", "DeviceTaintRule", "Node", "Pod")


class NoAnswer(click.ClickException):
    """There is nothing to explain, or nobody to ask."""

    exit_code = NO_ANSWER


@click.command(short_help="Say why a claim waits, or where it could be allocated.")
@click.argument("target", metavar="[NAMESPACE/]CLAIM")
@click.option("-n", "--namespace", default="default", show_default=True, help="Where NAMESPACE is not given.")
@click.option("--pod", "of_pod", is_flag=True, help="The name is a pod's: explain all its claims together.")
@files_option(required=False)
@click.option("--kubeconfig", metavar="FILE", help="Default: KUBECONFIG, ~/.kube/config, our pod's account.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig.  [default: its current one]")
@click.option("--server", metavar="URL", help="Ask an API server that wants no credentials.")
@click.option(
    "-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True
)
@click.option(
    "--semantics",
    "release",
    type=click.Choice(["1.37", "1.36"]),
    default="1.37",
    show_default=True,
    help="The Kubernetes release whose rules apply where releases differ.",
)
@gates_option()
@group_mode_option()
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    default=STEPS,
    show_default=True,
    help="Devices to try for the decision on one node before giving up.",
)
def explain(
    target: str,
    namespace: str,
    of_pod: bool,
    files: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
    server: str | None,
    output: str,
    release: Release,
    gates: frozenset[str],
    group_modes: tuple[str, ...],
    steps: int,
) -> None:
    """Say why a claim cannot be allocated: how many devices each gate leaves, what stops it, what is near.

    Looks at a cluster as it is now, or with -f at manifests, where claims and pods that come first are
    allocated first, as `allocate` does. Claims of one pod are explained together, for one node.

    \b
    Exits with
      0  it is allocated, or can be
      1  it cannot be allocated now
      2  the command line is wrong, there is no such claim, or the input cannot be read
    """
    if files and (kubeconfig or context or server):
        raise click.UsageError("Name manifests with -f, or a cluster, not both.")
    before, _, name = target.rpartition("/")
    key = ObjectKey(before or namespace, name)
    found = _read(files, server=server, kubeconfig=kubeconfig, context=context)
    rules = Semantics(release, gates, with_group_modes(group_modes))
    asked: list[Question] = []

    def concerns(pod: ObjectKey | None, claims: Iterable[ObjectKey]) -> bool:
        return pod == key if of_pod else key in claims

    def note(question: Question) -> None:
        if concerns(question.pod, [claim.key for claim in question.claims]):
            asked.append(question)

    report = decide(
        found,
        rules,
        steps=steps,
        # On a cluster nobody comes first: what is allocated there is.
        only=(lambda _pod, _claims: True) if files else concerns,
        asking=note,
    )
    if asked:
        told = [explain_claims(q.claims, q.world, nodes=q.nodes, steps=steps) for q in asked]
        _print(told, output)
        sys.exit(0 if any(one.allocatable for one in told) else CANNOT)
    _without_question(key, report, found, output, of_pod=of_pod)


def _read(
    files: tuple[str, ...], *, server: str | None, kubeconfig: str | None, context: str | None
) -> Bundle:
    if files:
        found = read_bundle(files, sys.stdin.buffer)
    else:
        try:
            raws = asyncio.run(list_objects(KINDS, server=server, kubeconfig=kubeconfig, context=context))
        except (ReconcilerError, OSError) as exc:
            raise NoAnswer(str(exc)) from exc
        found = bundle(_document(raw) for raw in raws)
    report_warnings(found.warnings)
    report_refused(found.refused)
    return found


def _document(raw: dict[str, Any]) -> Document:
    metadata = raw["metadata"]
    name = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
    return Document(Origin(f"{raw['kind']}/{name}"), raw)


def _print(told: list[Explanation], output: str) -> None:
    match output:
        case "json":
            click.echo(json.dumps([as_json(one) for one in told], indent=2))
        case "yaml":
            click.echo(yaml.safe_dump([as_json(one) for one in told], sort_keys=False), nl=False)
        case _:
            for number, one in enumerate(told):
                if number:
                    click.echo()
                print_explanation(one, sys.stdout)


def _without_question(key: ObjectKey, report: Report, found: Bundle, output: str, *, of_pod: bool) -> None:
    """Say why there was nothing to decide: held already, blocked by something else, or not there."""
    for answer in report.answers:
        named = answer.pod == key if of_pod else key in answer.claims
        if named and isinstance(answer.outcome, Blocked):
            _say(key, answer.outcome.message, output, allocated=False)
            sys.exit(CANNOT)
    claims = {claim.key: claim for claim in found.of(ResourceClaim)}
    pods = {pod.key: pod for pod in found.of(Pod)}
    if of_pod and key in pods:
        _say(key, "the pod has no claim that waits", output, allocated=True)
        return
    if not of_pod and key in report.held:
        allocation = claims[key].allocation
        _say(key, f"allocated: {', '.join(_holdings(allocation))}", output, allocated=True)
        return
    what, known = ("pod", pods) if of_pod else ("claim", claims)
    if key in known:
        _say(key, "nobody decides about it: its pods have ended", output, allocated=False)
        sys.exit(CANNOT)
    hint = "" if of_pod or key not in pods else "; there is a pod of that name, say --pod to explain it"
    raise NoAnswer(f"there is no {what} {key}{hint}")


def _holdings(allocation: Allocation | None) -> Iterator[str]:
    for device in allocation.devices.results if allocation is not None else ():
        yield f"{device.id} for request {device.request}"


def _say(key: ObjectKey, message: str, output: str, *, allocated: bool) -> None:
    said = {"name": str(key), "allocatable": allocated, "message": message}
    match output:
        case "json":
            click.echo(json.dumps([said], indent=2))
        case "yaml":
            click.echo(yaml.safe_dump([said], sort_keys=False), nl=False)
        case _:
            click.echo(plain(f"{key}: {message}"))
