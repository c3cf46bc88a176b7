"""`dra-reconciler replay`: the decisions of a journal made again, without a cluster."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress

from reconciler.analysis.explain import explain
from reconciler.analysis.explain.report import as_json
from reconciler.cli.common.exits import Exit
from reconciler.cli.common.options import output_option
from reconciler.cli.common.output import echo_value
from reconciler.cli.common.plain_text import plain
from reconciler.cli.views.explanation import print_explanation
from reconciler.errors import Rejected
from reconciler.operations.journal.entries import Decided
from reconciler.operations.journal.replaying import Again, Tally, replay


@click.command("replay", short_help="Make the decisions of a journal again, without a cluster.")
@click.argument("journal", type=click.Path(exists=True, path_type=Path), metavar="DIR|FILE")
@click.option("--until", metavar="DECISION", help="Stop after the decision of this name.")
@click.option("--explain", "explained", is_flag=True, help="Explain the refusals, or with --until that one.")
@click.option(
    "--diff-policy",
    "policy",
    type=click.Choice(["first-fit"]),
    help="Compare with what this policy decides.  [default: the one of the journal, first-fit]",
)
@output_option("table", "json")
def replay_command(
    journal: Path, until: str | None, explained: bool, policy: str | None, output: str
) -> None:
    """Make the decisions of a journal again, from the same inputs in the same order, and compare.

    A journal is written by `run --journal DIR`. Share ids are drawn anew, so they are not compared.
    """
    del policy  # the only one there is, so it is what is compared with anyway
    found: list[dict[str, Any]] = []
    last: list[Again] = []
    with _progress(output) as advance:

        def seen(again: Again) -> None:
            last[:] = [again]
            wanted = again.then.id == until if until is not None else bool(again.then.reason)
            if explained and wanted and again.explanation is not None:
                found.append({"decision": again.then.id, "explanation": as_json(again.explanation)})
                if output == "table":
                    click.echo(f"decision {again.then.id}")
                    print_explanation(again.explanation, sys.stdout)
            elif explained and wanted and again.world is None:
                found.append({"decision": again.then.id, "explanation": None})
                if output == "table":
                    click.echo(
                        plain(f"decision {again.then.id}: what it was made from is not in the journal")
                    )
            elif explained and wanted and again.world is not None:
                told = explain(again.claims, again.world, nodes=again.then.nodes)
                found.append({"decision": again.then.id, "explanation": as_json(told)})
                if output == "table":
                    click.echo(f"decision {again.then.id}")
                    print_explanation(told, sys.stdout)

        try:
            tally = replay(journal, until=until, seen=seen, progress=advance)
        except Rejected as exc:
            raise click.UsageError(str(exc)) from exc
    if until is not None and (not last or last[0].then.id != until):
        raise click.UsageError(f"there is no decision {until} in {journal}")
    if output == "json":
        echo_value(_as_json(tally, found), "json")
    else:
        _print(tally)
    sys.exit(Exit.FAILED if tally.different else Exit.OK)


@contextmanager
def _progress(output: str) -> Iterator[Any]:
    """Counts entries on a terminal: a journal may be long."""
    console = Console(stderr=True)
    if output == "json" or not console.is_terminal:
        yield lambda _: None
        return
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("entries", total=None)
        yield lambda count: bar.update(task, completed=count) if count % 1000 == 0 else None


def _as_json(tally: Tally, explained: list[dict[str, Any]]) -> dict[str, Any]:
    different = [
        {"then": _decided(again.then), "now": _decided(again.now)}
        for again in tally.different
        if again.now is not None
    ]
    return {
        "same": tally.same,
        "unknown": tally.unknown,
        "different": different,
        "explanations": explained,
    }


def _decided(decided: Decided) -> dict[str, Any]:
    return {**asdict(decided), "claims": [str(key) for key in decided.claims]}


def _print(tally: Tally) -> None:
    for again in tally.different:
        assert again.now is not None
        claims = ", ".join(map(str, again.then.claims)) or again.then.unit
        click.echo(plain(f"decision {again.then.id} about {claims}:"))
        click.echo(plain(f"  then: {_said(again.then)}"))
        click.echo(plain(f"  now:  {_said(again.now)}"))
    parts = [f"{tally.same} decisions are the same", f"{len(tally.different)} different"]
    if tally.unknown:
        parts.append(f"{tally.unknown} could not be made again, for want of what came before")
    click.echo(", ".join(parts))


def _said(decided: Decided) -> str:
    if decided.reason:
        return decided.reason
    return f"{'; '.join(', '.join(one) for one in decided.devices)} on {decided.node}"
