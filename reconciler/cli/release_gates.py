"""`dra-reconciler release-gates`: remove our scheduling gate from pods, for good."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, NamedTuple

import click

from reconciler.api.objects.core import GATE, Pod
from reconciler.api.versions.reading import loaded, read
from reconciler.cli.cluster import connected
from reconciler.cli.connection import Connection
from reconciler.cli.exits import Unreachable, errors_as, exit_unless
from reconciler.cli.options import cluster_options_to, namespace_option, output_option
from reconciler.cli.output import Console, Table, echo_value, object_name, print_line, print_table, remark
from reconciler.cluster.client import Client
from reconciler.cluster.kinds import POD
from reconciler.cluster.pod_writer import ungate
from reconciler.errors import Conflict, Gone, ReconcilerError, counted

ATTEMPTS = 5
"""How often a pod is tried that others change at the same time"""


class Released(NamedTuple):
    """What became of one pod."""

    namespace: str
    pod: str
    problem: str = ""
    """Why the gate was not removed; empty if it was, or would be"""


@click.command("release-gates")
@cluster_options_to("Use the default cluster, as without this option")
@namespace_option
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Pods of all namespaces.")
@click.option("--dry-run", is_flag=True, help="Only list the pods whose gate would be removed.")
@output_option("table", "name", "json", "yaml")
def release_gates(
    connection: Connection, namespace: str | None, everywhere: bool, dry_run: bool, output: str
) -> None:
    """Remove the scheduling gate of dra-reconciler from pods, so that they do not stay pending without it.

    Stop or pause the reconciler first. kube-scheduler then schedules the pods, and allocates those of their
    claims that have no devices yet. Other gates stay. A removed gate cannot come back. See docs/uninstall.md.

    \b
    Examples:
      dra-reconciler release-gates -A --dry-run
      dra-reconciler release-gates -n training
    """
    if namespace is not None and everywhere:
        raise click.UsageError("Name a namespace with -n, or all with -A, not both.")
    with errors_as(Unreachable):
        within = None if everywhere else namespace or connection.target().namespace
        found = asyncio.run(_release(connection, within, dry_run=dry_run))
    failed = [one for one in found if one.problem]
    match output:
        case "json" | "yaml":
            echo_value({"dryRun": dry_run, "pods": [_as_json(one) for one in found]}, output)
        case "name":
            for one in found:
                click.echo(object_name("Pod", one.pod))
        case _:
            _print(found, within, dry_run=dry_run)
    for one in failed:
        remark(f"Error: pod {one.namespace}/{one.pod}: {one.problem}")
    if found and not failed and not dry_run:
        remark("note: kube-scheduler now schedules these pods and allocates their remaining claims")
    exit_unless(not failed)


async def _release(connection: Connection, namespace: str | None, *, dry_run: bool) -> list[Released]:
    """Remove the gates, in the order of names. Raises ReconcilerError or OSError if pods cannot be listed."""
    async with connected(connection) as client:
        pods = [pod async for pod in _gated(client, namespace)]
        pods.sort(key=lambda pod: pod.key)
        return [
            Released(pod.key.namespace, pod.key.name, "" if dry_run else await _remove(client, pod))
            for pod in pods
        ]


async def _gated(client: Client, namespace: str | None) -> AsyncIterator[Pod]:

    async for page in client.list_pages(POD, limit=POD.page):
        for item in page.items:
            raw = loaded(item)[0]
            gates = raw["spec"].get("schedulingGates") or ()
            if any(gate["name"] == GATE for gate in gates) and namespace in (
                None,
                raw["metadata"]["namespace"],
            ):
                found = read({**raw, "kind": POD.kind, "apiVersion": POD.api_version})
                if isinstance(found, Pod):
                    yield found


async def _remove(client: Client, pod: Pod) -> str:
    """Remove the gate; the problem if that fails. A pod that is gone has no gate."""
    for _ in range(ATTEMPTS):
        try:
            await ungate(client, POD, pod)
        except Conflict:
            with suppress(Gone):
                again = read(await client.get(POD, pod.key))
                assert isinstance(again, Pod)
                pod = again
        except Gone:
            return ""
        except ReconcilerError as exc:
            return str(exc)
        else:
            return ""
    return f"others changed it {ATTEMPTS} times; try again"


def _as_json(one: Released) -> dict[str, Any]:
    return {"namespace": one.namespace, "name": one.pod, "problem": one.problem or None}


def _print(found: list[Released], namespace: str | None, *, dry_run: bool) -> None:
    console = Console(sys.stdout)
    if not found:
        where = "" if namespace is None else f" in namespace {namespace}; -A looks in all"
        print_line(console, f"no pod has the gate {GATE}{where}")
        return
    done = "would be removed" if dry_run else "removed"
    table = Table(("NAMESPACE", "POD", "GATE"), names=2)
    for one in found:
        table.add((one.namespace, one.pod, "stays" if one.problem else done))
    print_table(console, table)
    console.print()
    well = sum(not one.problem for one in found)
    print_line(console, f"{counted(well, 'gate')} {done}")
