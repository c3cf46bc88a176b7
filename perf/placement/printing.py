"""Progress and options that the commands of placement share."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


@contextmanager
def shown(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show the progress of something on the terminal until it is done."""
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=1.0)
        yield lambda at, of: progress.update(task, completed=at, total=of)


def seeds_in(text: str) -> list[int]:
    """The seeds of an option such as `42,43`."""
    try:
        return [int(seed) for seed in text.split(",") if seed]
    except ValueError as exc:
        raise click.BadParameter(f"write numbers such as 42,43, not {text!r}", param_hint="--seeds") from exc
