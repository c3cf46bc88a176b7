"""`dra-reconciler doctor`: what is wrong with slices, classes and claims, and what to do about it."""

import asyncio
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any, TextIO

import click

from reconciler.analysis.doctor.checks import examine, worst_first
from reconciler.analysis.doctor.findings import Finding, Severity
from reconciler.analysis.doctor.input import read_input
from reconciler.analysis.doctor.report import as_json, as_sarif, counts
from reconciler.api.manifests.documents import Document, Refusal, of_texts
from reconciler.api.manifests.lines import lines_of
from reconciler.api.manifests.origin import Origin
from reconciler.api.manifests.sources import texts
from reconciler.api.objects.semantics import Semantics
from reconciler.cli.common.cluster_listing import list_objects
from reconciler.cli.common.connection import Reach
from reconciler.cli.common.exits import Exit, errors_as
from reconciler.cli.common.options import cluster_options, manifest_options, output_option, rules_options
from reconciler.cli.common.output import add_row, console_on, echo_value, say, table_for
from reconciler.cli.common.progress import working

KINDS = (
    "ResourceSlice",
    "DeviceClass",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "DeviceTaintRule",
    "Node",
    "Pod",
)


@click.command(short_help="Say what is wrong with slices, classes and claims, and what to do about it.")
@manifest_options
@cluster_options
@output_option("table", "json", "sarif")
@click.option("--strict", is_flag=True, help="Exit with 3 for warnings, for use in CI.")
@rules_options
def doctor(files: tuple[str, ...], reach: Reach, output: str, strict: bool, rules: Semantics) -> None:
    """Say what is wrong with ResourceSlices, DeviceClasses and ResourceClaims, and what to do about it."""
    if bool(files) == reach.named:
        raise click.UsageError("Name manifests with -f, or a cluster with --cluster.")
    with working(quiet=output != "table") as work:
        sources: dict[str, str] = {}
        if files:
            read = list(work.each("reading files", texts(files, sys.stdin.buffer)))
            sources = {name: text for name, text in read if isinstance(text, str)}
            found: Iterable[Document | Refusal] = work.each("reading manifests", of_texts(read))
        else:
            work.stage("asking the cluster")
            with errors_as(click.ClickException):
                found = [_document(raw) for raw in asyncio.run(list_objects(KINDS, reach))]
        data = read_input(found, rules)
        work.stage("examining")
        findings = worst_first(_with_lines(examine(data), sources))
    match output:
        case "json":
            echo_value(as_json(findings), "json")
        case "sarif":
            echo_value(as_sarif(findings, version("dra-reconciler")), "json")
        case _:
            _print(findings, sys.stdout)
    sys.exit(_exit_code(findings, strict=strict))


def _with_lines(findings: Iterable[Finding], sources: Mapping[str, str]) -> Iterator[Finding]:
    """The findings, each on the line of its field where the text of its file is at hand."""
    found = list(findings)
    asked: dict[str, list[tuple[Origin, str]]] = {}
    for one in found:
        if one.field and one.origin.file in sources:
            asked.setdefault(one.origin.file, []).append((one.origin, one.field))
    lines = {
        at: line for file, fields in asked.items() for at, line in lines_of(sources[file], fields).items()
    }
    for one in found:
        line = lines.get((one.origin, one.field), one.origin.line)
        yield replace(one, origin=one.origin._replace(line=line))


def _exit_code(findings: Sequence[Finding], *, strict: bool) -> Exit:
    found = {one.severity for one in findings}
    if Severity.ERROR in found:
        return Exit.FAILED
    return Exit.PARTIAL if strict and Severity.WARNING in found else Exit.OK


def _document(raw: dict[str, Any]) -> Document:
    metadata = raw["metadata"]
    name = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
    return Document(Origin(f"{raw['kind']}/{name}"), raw)


def _print(findings: Sequence[Finding], out: TextIO) -> None:
    console = console_on(out)
    table = table_for(console, ("SEVERITY", "CHECK", "OBJECT", "FIELD", "WHAT", "REMEDY", "WHERE"))
    for one in findings:
        cells = (one.severity.value, one.check, one.object, one.field or "-", one.what, one.remedy)
        add_row(table, (*cells, str(one.origin)))
    if findings:
        console.print(table)
    summary = ", ".join(f"{count} {severity}" for severity, count in counts(findings).items())
    say(console, summary)
