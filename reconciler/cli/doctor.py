"""`dra-reconciler doctor`: find problems in slices, classes and claims, with remedies."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import click
from msgspec.structs import replace

from reconciler.analysis.doctor.checks import as_json, as_sarif, examine, worst_first
from reconciler.analysis.doctor.findings import Finding, Severity
from reconciler.analysis.doctor.input import read_input
from reconciler.api.manifests.documents import Document, Refusal, of_texts
from reconciler.api.manifests.lines import lines_of
from reconciler.api.manifests.origin import Origin
from reconciler.api.manifests.sources import texts
from reconciler.api.objects.semantics import Semantics
from reconciler.cli.common.cluster_listing import list_objects
from reconciler.cli.common.connection import Connection
from reconciler.cli.common.contexts import as_json as contexts_as_json
from reconciler.cli.common.contexts import (
    ask_each,
    check_usage,
    print_heading,
    report_unreached,
)
from reconciler.cli.common.exits import Exit, Failure, errors_as
from reconciler.cli.common.input import report_nothing
from reconciler.cli.common.options import (
    FOR_PEOPLE,
)
from reconciler.cli.common.output import echo_value
from reconciler.cli.common.progress import track_progress
from reconciler.cli.common.waiting import wait_for
from reconciler.cli.views.findings import object_names, print_findings

KINDS = (
    "ResourceSlice",
    "DeviceClass",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "DeviceTaintRule",
    "Node",
    "Pod",
    "Device",
)


def doctor(
    files: tuple[str, ...],
    connection: Connection,
    contexts: tuple[str, ...],
    output: str,
    strict: bool,
    rules: Semantics,
) -> None:
    """Carry out the command. Its options and its help are in `cli/commands/doctor.py`."""
    check_usage(connection, contexts, files, output)
    if files and connection.named:
        raise click.UsageError("Name manifests with -f, or a cluster, not both.")
    if contexts:
        _examine_contexts(connection, contexts, output, strict=strict, rules=rules)
        return
    with track_progress(quiet=output not in FOR_PEOPLE) as progress:
        sources: dict[str, str] = {}
        if files:
            read = list(progress.each("reading files", texts(files, sys.stdin.buffer)))
            sources = {name: text for name, text in read if isinstance(text, str)}
            found: Iterable[Document | Refusal] = progress.each("reading manifests", of_texts(read))
        else:
            progress.stage("reading the cluster")
            with errors_as(Failure):
                found = [_document(raw) for raw in wait_for(_listed(connection))]
        data = read_input(found, rules)
        if files and not (data.documents or data.refused):
            report_nothing(files)
        progress.stage("checking")
        findings = worst_first(_with_lines(examine(data), sources))
    match output:
        case "json" | "yaml":
            echo_value(as_json(findings), output)
        case "sarif":
            from importlib.metadata import version  # noqa: PLC0415 - slow to import, and only needed here

            echo_value(as_sarif(findings, version("dra-reconciler")), "json")
        case "name":
            for name in object_names(findings):
                click.echo(name)
        case _:
            print_findings(findings, sys.stdout, wide=output == "wide")
    sys.exit(_exit_code(findings, strict=strict))


def _examine_contexts(
    connection: Connection, contexts: tuple[str, ...], output: str, *, strict: bool, rules: Semantics
) -> None:
    """Examine several clusters, one after another as they are named. Exits with the worst code."""
    with track_progress(quiet=output not in FOR_PEOPLE) as progress:
        progress.stage("reading the clusters")
        reached = ask_each(connection, contexts, _listed)
        progress.stage("checking")
        found = [
            worst_first(examine(read_input(map(_document, one.found), rules)))
            if one.found is not None
            else None
            for one in reached
        ]
    if output in FOR_PEOPLE:
        answered = [(one.context, some) for one, some in zip(reached, found, strict=True) if some is not None]
        for number, (context, findings) in enumerate(answered):
            print_heading(context, first=number == 0)
            print_findings(findings, sys.stdout, wide=output == "wide")
    else:
        results = [as_json(findings) if findings is not None else None for findings in found]
        echo_value(contexts_as_json(reached, results), output)
    silent = report_unreached(reached)
    codes = [_exit_code(findings, strict=strict) for findings in found if findings is not None]
    failed = silent or Exit.FAILED in codes
    sys.exit(Exit.FAILED if failed else max(codes))


async def _listed(connection: Connection) -> list[dict[str, Any]]:
    """All that is examined of a cluster."""
    return await list_objects(KINDS, connection, leniently=True)


def _with_lines(findings: Iterable[Finding], sources: Mapping[str, str]) -> Iterator[Finding]:
    """The findings, each with the line of its field if the text of its file was read."""
    findings = list(findings)
    fields: dict[str, list[tuple[Origin, str]]] = {}
    for finding in findings:
        if finding.field and finding.origin.file in sources:
            fields.setdefault(finding.origin.file, []).append((finding.origin, finding.field))
    lines = {
        field: line for file, at in fields.items() for field, line in lines_of(sources[file], at).items()
    }
    for finding in findings:
        line = lines.get((finding.origin, finding.field), finding.origin.line)
        yield replace(finding, origin=finding.origin._replace(line=line))


def _exit_code(findings: Sequence[Finding], *, strict: bool) -> Exit:
    severities = {finding.severity for finding in findings}
    if Severity.ERROR in severities:
        return Exit.FAILED
    return Exit.PARTIAL if strict and Severity.WARNING in severities else Exit.OK


def _document(raw: dict[str, Any]) -> Document:
    metadata = raw["metadata"]
    name = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
    return Document(Origin(f"{raw['kind']}/{name}"), raw)
