"""`dra-reconciler doctor`: find problems in slices, classes and claims, with remedies."""

import asyncio
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TextIO

import click
from msgspec.structs import replace

from reconciler.analysis.doctor.checks import as_json, as_sarif, counts, examine, worst_first
from reconciler.analysis.doctor.findings import DoctorInput, Finding, Severity, read_input
from reconciler.api.manifests.bundle import kind_of
from reconciler.api.manifests.documents import Document, InvalidDocument, Origin, lines_of, of_texts, texts
from reconciler.api.objects.semantics import Semantics
from reconciler.cli import contexts as several
from reconciler.cli import options
from reconciler.cli import output as printing
from reconciler.cli.cluster import connected, list_objects
from reconciler.cli.connection import Connection
from reconciler.cli.exits import NoAnswer, Unreachable, errors_as, exit_unless
from reconciler.cli.input import nothing_in, nothing_usable
from reconciler.cli.rule_options import rules_options
from reconciler.errors import counted

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


@click.command()
@options.manifest_options
@options.cluster_options
@options.contexts_option
@options.output_option(
    "table",
    "wide",
    "name",
    "json",
    "yaml",
    "sarif",
    explained="table: a block for each finding; wide: a line for each; name: the objects with findings.",
)
@click.option("--strict", is_flag=True, help="Exit with code 1 for warnings, too, for CI.")
@rules_options
def doctor(
    files: tuple[str, ...],
    connection: Connection,
    contexts: tuple[str, ...],
    output: str,
    strict: bool,
    rules: Semantics,
) -> None:
    """Find problems in ResourceSlices, DeviceClasses and ResourceClaims, with a remedy for each.

    \b
    Examples:
      dra-reconciler doctor -f manifests/
      dra-reconciler doctor --strict
    """
    several.check_contexts(connection, contexts, files, output)
    if contexts:
        _examine_contexts(connection, contexts, output, strict=strict, rules=rules)
        return
    with printing.track_progress(quiet=output not in options.FOR_PEOPLE) as progress:
        sources: dict[str, str] = {}
        if files:
            read = list(progress.each("reading files", texts(files, sys.stdin.buffer)))
            sources = {name: text for name, text in read if isinstance(text, str)}
            found: Iterable[Document | InvalidDocument] = progress.each("reading manifests", of_texts(read))
        else:
            progress.stage("reading the cluster")
            with errors_as(Unreachable):
                found = [_document(raw) for raw in asyncio.run(_listed(connection))]
        data = read_input(found, rules)
        progress.stage("checking")
        findings = worst_first(_with_lines(examine(data), sources))
    unread = files and _nothing_read(data, files)
    if unread and not findings:
        raise NoAnswer(unread)
    match output:
        case "json" | "yaml":
            printing.echo_value(as_json(findings), output)
        case "sarif":
            from importlib.metadata import version  # noqa: PLC0415 - slow to import, and only needed here

            printing.echo_value(as_sarif(findings, version("dra-reconciler")), "json")
        case "name":
            for name in object_names(findings):
                click.echo(name)
        case _:
            print_findings(findings, sys.stdout, wide=output == "wide")
    if unread:
        raise NoAnswer(unread)
    exit_unless(_is_well(findings, strict=strict))


def _nothing_read(data: DoctorInput, files: Sequence[str]) -> str:
    """What manifests without an object that can be read have instead; empty if they have one."""
    if any(one.entry for one in data.documents):
        return ""
    invalid = {one.origin for one in data.refused}
    others = (one.document for one in data.documents if one.document.origin not in invalid)
    return nothing_usable(len(data.refused), Counter(kind_of(one.raw) for one in others)) or nothing_in(files)


def _examine_contexts(
    connection: Connection, contexts: tuple[str, ...], output: str, *, strict: bool, rules: Semantics
) -> None:
    """Examine several clusters, one after another as they are named. The worst code counts."""
    with printing.track_progress(quiet=output not in options.FOR_PEOPLE) as progress:
        progress.stage("reading the clusters")
        reached = several.ask_each(connection, contexts, _listed)
        progress.stage("checking")
        found = [
            worst_first(examine(read_input(map(_document, one.found), rules)))
            if one.found is not None
            else None
            for one in reached
        ]
    if output in options.FOR_PEOPLE:
        answered = [(one.context, some) for one, some in zip(reached, found, strict=True) if some is not None]
        for number, (context, findings) in enumerate(answered):
            several.print_heading(context, first=number == 0)
            print_findings(findings, sys.stdout, wide=output == "wide")
    else:
        results = [as_json(findings) if findings is not None else None for findings in found]
        printing.echo_value(several.contexts_as_json(reached, results), output)
    several.report_unreached(reached)
    exit_unless(all(_is_well(findings, strict=strict) for findings in found if findings is not None))


async def _listed(connection: Connection) -> list[dict[str, Any]]:
    """All that is examined of a cluster."""
    from reconciler.cluster.discovery import newer_kinds  # noqa: PLC0415 - slow, and only for clusters

    found = await list_objects(KINDS, connection, leniently=True)
    async with connected(connection, announced=False) as client:
        return found + await newer_kinds(client)


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


def _is_well(findings: Sequence[Finding], *, strict: bool) -> bool:
    severities = {finding.severity for finding in findings}
    return Severity.ERROR not in severities and not (strict and Severity.WARNING in severities)


def _document(raw: dict[str, Any]) -> Document:
    metadata = raw["metadata"]
    name = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
    return Document(Origin(f"{raw['kind']}/{name}"), raw)


_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold"}


def print_findings(findings: Sequence[Finding], out: TextIO, *, wide: bool) -> None:
    """Print the findings and how many there are; wide prints a line for each, to search and to sort."""
    console = printing.Console(out)
    if wide and findings:
        printing.print_table(console, _table(findings), wide=True)
    elif findings:
        for one in findings:
            printing.print_line(
                console, f"{one.severity.value} {one.check}: {one.object}", style=_STYLES[one.severity]
            )
            for label, text in _block(one):
                printing.print_line(console, f"  {label + ':':9} {text}", hanging=12)
            console.print()
    errors, warnings, info = counts(findings).values()
    printing.print_line(console, f"{counted(errors, 'error')}, {counted(warnings, 'warning')}, {info} info")


def object_names(findings: Sequence[Finding]) -> list[str]:
    """The objects with findings, each once, as kubectl names them. Files that hold no object have no name."""
    found = (one.object.partition(" ") for one in findings)
    return list(
        dict.fromkeys(
            printing.object_name(kind, name.rpartition("/")[2])
            for kind, _, name in found
            if kind.isalnum() and name and " " not in name
        )
    )


def _block(one: Finding) -> Iterator[tuple[str, str]]:
    yield "problem", one.what
    yield "fix", one.remedy
    if one.field:
        yield "field", one.field
    yield "location", str(one.origin)


def _table(findings: Sequence[Finding]) -> printing.Table:
    table = printing.Table(("SEVERITY", "CHECK", "OBJECT", "FIELD", "PROBLEM", "REMEDY", "LOCATION"), names=3)
    for one in findings:
        cells = (one.severity.value, one.check, one.object, one.field or "-", one.what, one.remedy)
        table.add((*cells, str(one.origin)))
    return table
