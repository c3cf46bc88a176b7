"""`dra-reconciler allocate`: what manifests ask for and what they offer, decided without a cluster."""

import sys
from datetime import UTC, datetime

import click

from reconciler.cli.devices import decide_devices, lines, print_devices, written
from reconciler.cli.inputs import (
    files_option,
    gates_option,
    group_mode_option,
    read_manifests,
    report_ignored,
    report_refused,
    report_warnings,
)
from reconciler.cli.plain import plain
from reconciler.cli.printing import claims_json, claims_yaml, notes, print_report, refusals
from reconciler.cli.working import working
from reconciler.koordinator.rules import Semantics as DeviceSemantics
from reconciler.objects.semantics import Release, Semantics, with_group_modes
from reconciler.offline import STEPS, decide

SOME_WAIT = 3
BAD_INPUT = 1


@click.command(short_help="Allocate the claims of manifests, without a cluster.")
@files_option(required=False)
@click.argument("more", nargs=-1, type=click.Path(exists=True, readable=True), metavar="[FILE|DIR]...")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "yaml", "json"]),
    default="table",
    show_default=True,
    help="A table for people, or the claims that got devices, as a live run would write them.",
)
@click.option(
    "--semantics",
    "release",
    type=click.Choice(["1.37", "1.36"]),
    default="1.37",
    show_default=True,
    help="The Kubernetes release whose rules apply where releases differ.",
)
@click.option(
    "--koordinator-semantics",
    type=click.Choice(["proposal", "upstream"]),
    default="proposal",
    show_default=True,
    help="Koordinator's proposals or its release, where they differ.",
)
@gates_option()
@group_mode_option()
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    default=STEPS,
    show_default=True,
    help="Devices to try for one decision on one node before giving up.",
)
def allocate(
    files: tuple[str, ...],
    more: tuple[str, ...],
    output: str,
    release: Release,
    gates: frozenset[str],
    group_modes: tuple[str, ...],
    steps: int,
    koordinator_semantics: str,
) -> None:
    """Allocate the claims of manifests, without a cluster.

    Reads ResourceSlices, DeviceClasses, ResourceClaims and templates, DeviceTaintRules, Nodes and Pods;
    other kinds are counted and left alone. Claims that are allocated already hold their devices. The claims
    of one pod are allocated together, for one node; others one by one. Pods of higher priority come first,
    then older objects, then the order of the input.

    Nodes that no Node object describes are taken from the slices' `nodeName`. For selectors that match none
    of them, one more node is assumed, with labels for as many as possible.

    Where there are Koordinator's Device objects, pods that request their devices get them, too: the table
    shows the annotation that records them, yaml and json the pods. Pods that have it hold what it says.
    """
    if not files and not more:
        raise click.UsageError("Nothing to read: name manifests with -f FILE, -f DIR or -f -.")
    rules = Semantics(release, gates, with_group_modes(group_modes))
    with working(quiet=output == "json") as work:
        bundle = read_manifests((*files, *more), work)
        work.stage("allocating claims")
        report = decide(bundle, rules, steps=steps, asking=work.step)
        devices = decide_devices(bundle, DeviceSemantics(koordinator_semantics))
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
        click.echo(claims_yaml(claims) if output == "yaml" else claims_json(claims), nl=False)
    if bundle.refused:
        sys.exit(BAD_INPUT)
    if report.waiting or (devices is not None and devices.refused):
        sys.exit(SOME_WAIT)
