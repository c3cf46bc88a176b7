"""`dra-reconciler allocate`: what manifests ask for and what they offer, decided without a cluster."""

import sys
from datetime import UTC, datetime

import click

from reconciler.api.objects.semantics import Semantics
from reconciler.cli.common.exits import Exit
from reconciler.cli.common.input import read_manifests, report_ignored, report_refused, report_warnings
from reconciler.cli.common.options import (
    koordinator_semantics_option,
    manifest_options,
    output_option,
    release_and_rules_options,
    steps_option,
)
from reconciler.cli.common.output import as_documents, as_list
from reconciler.cli.common.plain_text import plain
from reconciler.cli.common.progress import working
from reconciler.cli.views.koordinator_report import lines, print_devices, written
from reconciler.cli.views.report import notes, print_report, refusals
from reconciler.control.offline import STEPS, decide
from reconciler.state.koordinator.rules import Rules
from reconciler.state.koordinator.rules import Semantics as DeviceSemantics


@click.command(short_help="Allocate the claims of manifests, without a cluster.")
@manifest_options
@output_option(
    "table",
    "yaml",
    "json",
    explained="A table for people, or the claims that got devices, as a live run would write them.",
)
@koordinator_semantics_option(default="proposal")
@release_and_rules_options
@steps_option(STEPS)
def allocate(
    files: tuple[str, ...], output: str, rules: Semantics, steps: int, koordinator_semantics: str
) -> None:
    """Allocate the claims of manifests, without a cluster.

    Reads ResourceSlices, DeviceClasses, ResourceClaims and templates, DeviceTaintRules, Nodes and Pods;
    other kinds are counted and left alone. Claims that are allocated already hold their devices. The claims
    of one pod are allocated together, for one node; others one by one. Pods of higher priority come first,
    then older objects, then names; what has no creation timestamp counts as youngest. Nodes are left out
    as the reconciler leaves them out: cordoned, tainted, without room for the pod.

    Nodes that no Node object describes are taken from the slices' `nodeName`. For selectors that match none
    of them, one more node is assumed, with labels for as many as possible.

    Where there are Koordinator's Device objects, pods that request their devices get them, too: the table
    shows the annotation that records them, yaml and json the pods. Pods that have it hold what it says.
    """
    if not files:
        raise click.UsageError("Nothing to read: name manifests with -f FILE, -f DIR or -f -.")
    with working(quiet=output == "json") as work:
        bundle = read_manifests(files, work)
        work.stage("allocating claims")
        machines = Rules(DeviceSemantics(koordinator_semantics))
        report = decide(bundle, rules, steps=steps, machines=machines, on_question=work.step)
        devices = report.devices
    report_warnings(bundle.warnings)
    report_refused(bundle.refused)
    report_ignored(bundle.ignored)
    if output == "table":
        if devices is None or report.answers or report.held:
            print_report(report, sys.stdout)
        if devices is not None:
            print_devices(devices, sys.stdout)
    else:
        for line in (*refusals(report), *notes(report)):
            click.echo(plain(line), err=True)
        claims = report.allocated(datetime.now(UTC))
        if devices is not None:
            for line in lines(devices):
                click.echo(plain(line), err=True)
            claims += written(bundle, devices)
        click.echo(as_documents(claims) if output == "yaml" else as_list(claims), nl=False)
    if bundle.refused:
        sys.exit(Exit.FAILED)
    if report.waiting or (devices is not None and devices.refused):
        sys.exit(Exit.PARTIAL)
