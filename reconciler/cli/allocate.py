"""`dra-reconciler allocate`: allocate the claims in manifests, without a cluster."""

import sys
from datetime import UTC, datetime

import click

from reconciler.allocation.policies.selection import Policies
from reconciler.api.objects.semantics import Semantics
from reconciler.cli.common.exits import Exit
from reconciler.cli.common.input import read_manifests, report_ignored, report_refused, report_warnings
from reconciler.cli.common.options import (
    FOR_PEOPLE,
)
from reconciler.cli.common.output import as_documents, as_list, remark
from reconciler.cli.common.progress import track_progress
from reconciler.cli.views.koordinator_report import lines, print_devices, written
from reconciler.cli.views.koordinator_report import names_of as names_of_pods
from reconciler.cli.views.report import names_of, notes, print_report, refusals
from reconciler.control.offline import decide
from reconciler.plugins.koordinator.rules import Rules
from reconciler.plugins.koordinator.rules import Semantics as DeviceSemantics


def allocate(
    files: tuple[str, ...],
    output: str,
    rules: Semantics,
    steps: int,
    koordinator_semantics: str,
    policies: Policies,
) -> None:
    """Carry out the command. Its options and its help are in `cli/commands/allocate.py`."""
    if not files:
        raise click.UsageError("No input: name manifests with -f FILE, -f DIR or -f -.")
    with track_progress(quiet=output not in FOR_PEOPLE) as progress:
        bundle = read_manifests(files, progress)
        progress.stage("allocating claims")
        machines = Rules(DeviceSemantics(koordinator_semantics))
        report = decide(
            bundle, rules, steps=steps, machines=machines, policies=policies, on_question=progress.step
        )
        devices = report.devices
    report_warnings(bundle.warnings)
    report_refused(bundle.refused)
    report_ignored(bundle.ignored)
    if output in FOR_PEOPLE:
        wide = output == "wide"
        if devices is None or report.answers or report.held:
            print_report(report, sys.stdout, wide=wide)
        if devices is not None:
            print_devices(devices, sys.stdout, wide=wide)
    elif output == "name":
        for name in (*names_of(report), *(names_of_pods(devices) if devices is not None else ())):
            click.echo(name)
    else:
        for line in (*refusals(report), *notes(report)):
            remark(line)
        claims = report.allocated(datetime.now(UTC))
        if devices is not None:
            for line in lines(devices):
                remark(line)
            claims += written(bundle, devices)
        click.echo(as_documents(claims) if output == "yaml" else as_list(claims), nl=False)
    if bundle.refused:
        sys.exit(Exit.FAILED)
    if report.waiting or (devices is not None and devices.refused):
        sys.exit(Exit.PARTIAL)
