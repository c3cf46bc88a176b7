"""Output of commands: plain text for pipes, tables for terminals, JSON and YAML for programs."""

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, TextIO

import click
import yaml
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from reconciler.cli.common.plain_text import plain

UNBOUNDED = 10_000
"""Width without a terminal: names are never cut, so that lines can be searched."""


def console_on(out: TextIO) -> Console:
    """A console for plain text, without a limit on line length unless `out` is a terminal."""
    console = Console(file=out, highlight=False, emoji=False, markup=False)
    if not console.is_terminal:
        console.width = UNBOUNDED
    return console


def table_for(console: Console, headings: Iterable[str], *, right: Collection[str] = ()) -> Table:
    """An empty table, with a line below its headings on a terminal; columns in `right` hold numbers."""
    table = Table(box=SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    return _headed(table, headings, right)


def bare_table(headings: Iterable[str]) -> Table:
    """An empty table without borders."""
    return _headed(Table(box=None, pad_edge=False), headings)


def add_row(table: Table, cells: Iterable[str]) -> None:
    """Add a row; control characters are escaped."""
    table.add_row(*(Text(plain(cell)) for cell in cells))


def print_line(console: Console, line: str) -> None:
    """Print a line; control characters are escaped and the line is never cut."""
    console.print(Text(plain(line)), soft_wrap=True)


def echo_value(value: Any, output: str) -> None:
    """Print a value as `output`: json or yaml."""
    if output == "json":
        click.echo(json.dumps(value, indent=2))
    else:
        click.echo(yaml.safe_dump(value, sort_keys=False), nl=False)


def as_list(objects: Sequence[dict[str, Any]]) -> str:
    """Objects as one JSON List."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}, indent=2) + "\n"


def as_documents(objects: Sequence[dict[str, Any]], **style: Any) -> str:
    """Objects as one stream of YAML documents; empty if there are none."""
    return yaml.dump_all(objects, Dumper=_NoAliases, sort_keys=False, **style) if objects else ""


def _headed(table: Table, headings: Iterable[str], right: Collection[str] = ()) -> Table:
    for heading in headings:
        table.add_column(heading, overflow="fold", justify="right" if heading in right else "left")
    return table


class _NoAliases(yaml.SafeDumper):
    """Writes no anchors: they are hard to read, and some parsers reject them."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True
