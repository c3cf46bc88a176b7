"""The findings of `doctor`: a block for each, or a line for each."""

from collections.abc import Iterator, Sequence
from typing import TextIO

from reconciler.analysis.doctor.checks import counts
from reconciler.analysis.doctor.findings import Finding, Severity
from reconciler.cli.common.console import Console
from reconciler.cli.common.output import print_line, print_table
from reconciler.cli.common.plain_text import counted, object_name
from reconciler.cli.common.table import Table

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold"}


def print_findings(findings: Sequence[Finding], out: TextIO, *, wide: bool) -> None:
    """Print the findings and how many there are; wide prints a line for each, to search and to sort."""
    console = Console(out)
    if wide and findings:
        print_table(console, _table(findings), wide=True)
    elif findings:
        for one in findings:
            print_line(
                console, f"{one.severity.value} {one.check}: {one.object}", style=_STYLES[one.severity]
            )
            for label, text in _block(one):
                print_line(console, f"  {label + ':':9} {text}", hanging=12)
            console.print()
    errors, warnings, info = counts(findings).values()
    print_line(console, f"{counted(errors, 'error')}, {counted(warnings, 'warning')}, {info} info")


def object_names(findings: Sequence[Finding]) -> list[str]:
    """The objects with findings, each once, as kubectl names them. Files that hold no object have no name."""
    found = (one.object.partition(" ") for one in findings)
    return list(
        dict.fromkeys(
            object_name(kind, name.rpartition("/")[2])
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


def _table(findings: Sequence[Finding]) -> Table:
    table = Table(("SEVERITY", "CHECK", "OBJECT", "FIELD", "PROBLEM", "REMEDY", "LOCATION"), names=3)
    for one in findings:
        cells = (one.severity.value, one.check, one.object, one.field or "-", one.what, one.remedy)
        table.add((*cells, str(one.origin)))
    return table
