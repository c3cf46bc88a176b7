"""`dra-reconciler doctor`: what is wrong with slices, classes and claims, and what to do about it."""

import asyncio
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any, TextIO

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from reconciler.cli.inputs import files_option, gates_option, group_mode_option
from reconciler.cli.listing import list_objects
from reconciler.cli.plain import plain
from reconciler.cli.printing import UNBOUNDED
from reconciler.cli.reach import Reach, cluster_options
from reconciler.cli.working import working
from reconciler.doctor.checks import examine, worst_first
from reconciler.doctor.findings import Finding, Severity
from reconciler.doctor.picture import read_picture
from reconciler.doctor.report import as_json, as_sarif, counts
from reconciler.errors import ReconcilerError
from reconciler.manifests.documents import Document, Refusal, of_texts
from reconciler.manifests.lines import lines_of
from reconciler.manifests.origin import Origin
from reconciler.manifests.sources import texts
from reconciler.objects.semantics import Semantics, with_group_modes

ERRORS, WARNINGS = 1, 3
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
@files_option(required=False)
@click.argument("more", nargs=-1, type=click.Path(exists=True, readable=True), metavar="[FILE|DIR]...")
@cluster_options
@click.option(
    "-o", "--output", type=click.Choice(["table", "json", "sarif"]), default="table", show_default=True
)
@click.option("--strict", is_flag=True, help="Exit with 3 for warnings, for use in CI.")
@gates_option()
@group_mode_option()
def doctor(
    files: tuple[str, ...],
    more: tuple[str, ...],
    reach: Reach,
    output: str,
    strict: bool,
    gates: frozenset[str],
    group_modes: tuple[str, ...],
) -> None:
    """Say what is wrong with ResourceSlices, DeviceClasses and ResourceClaims, and what to do about it."""
    if bool(files or more) == reach.named:
        raise click.UsageError("Name manifests with -f, or a cluster with --cluster.")
    rules = Semantics(gates=gates, group_modes=with_group_modes(group_modes))
    with working(quiet=output != "table") as work:
        sources: dict[str, str] = {}
        if files or more:
            read = list(work.each("reading files", texts((*files, *more), sys.stdin.buffer)))
            sources = {name: text for name, text in read if isinstance(text, str)}
            found: Iterable[Document | Refusal] = work.each("reading manifests", of_texts(read))
        else:
            work.stage("asking the cluster")
            try:
                found = [_document(raw) for raw in asyncio.run(list_objects(KINDS, reach))]
            except (ReconcilerError, OSError) as exc:
                raise click.ClickException(str(exc)) from exc
        picture = read_picture(found, rules)
        work.stage("examining")
        findings = worst_first(_with_lines(examine(picture), sources))
    match output:
        case "json":
            click.echo(json.dumps(as_json(findings), indent=2))
        case "sarif":
            click.echo(json.dumps(as_sarif(findings, version("dra-reconciler")), indent=2))
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


def _exit_code(findings: Sequence[Finding], *, strict: bool) -> int:
    found = {one.severity for one in findings}
    if Severity.ERROR in found:
        return ERRORS
    return WARNINGS if strict and Severity.WARNING in found else 0


def _document(raw: dict[str, Any]) -> Document:
    metadata = raw["metadata"]
    name = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
    return Document(Origin(f"{raw['kind']}/{name}"), raw)


def _print(findings: Sequence[Finding], out: TextIO) -> None:
    console = Console(file=out, highlight=False, emoji=False, markup=False)
    if not console.is_terminal:
        console.width = UNBOUNDED
    table = Table(box=SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    for heading in ("SEVERITY", "CHECK", "OBJECT", "FIELD", "WHAT", "REMEDY", "WHERE"):
        table.add_column(heading, overflow="fold")
    for one in findings:
        cells = (one.severity.value, one.check, one.object, one.field or "-", one.what, one.remedy)
        table.add_row(*(Text(plain(cell)) for cell in (*cells, str(one.origin))))
    if findings:
        console.print(table)
    summary = ", ".join(f"{count} {severity}" for severity, count in counts(findings).items())
    console.print(Text(summary))
