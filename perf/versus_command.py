"""The command `python -m perf versus`."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from perf.catalogue import WORKLOADS
from perf.child import Failed
from perf.machine import machine
from perf.printing import versus_table
from perf.sizes import known, parsed, progress_bar
from perf.versus import Side, Versus, in_turns, pinned, resolve, worktrees


@click.command()
@click.argument("base")
@click.argument("head")
@click.argument("names", nargs=-1, metavar="[WORKLOAD]...", type=click.Choice(list(WORKLOADS)))
@click.option("--rounds", type=click.IntRange(min=2), default=6, show_default=True)
@click.option("--set", "sizes", multiple=True, metavar="NAME=NUMBER", help="Another size than `list` shows.")
@click.option("--case", "cases", multiple=True, help="Only these cases of the workloads that have several.")
@click.option("--pin/--no-pin", default=True, help="Run on one core only, if the system can.  [default: pin]")
@click.option("--out", type=click.Path(dir_okay=False, writable=True, path_type=Path), help="Keep as JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def versus(
    base: str,
    head: str,
    names: Sequence[str],
    rounds: int,
    sizes: Sequence[str],
    cases: Sequence[str],
    pin: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Run two commits in turns, by default all workloads, and print ratios with their spread.

    Both run from git worktrees in a temporary folder, each with the packages of its own requirements.lock,
    which are installed once in a cache folder. Of each pair of runs the ratio counts; above 1 the second
    commit is better. Sizes are those of the working tree.
    """
    try:
        commits = resolve(base), resolve(head)
    except (LookupError, OSError) as exc:
        raise click.ClickException(str(exc)) from exc
    other = dict(parsed(size) for size in sizes)
    here, done = machine(), []
    with progress_bar() as progress, worktrees(*commits) as checkouts, pinned(wanted=pin) as core:
        task = progress.add_task("versus", total=1.0)
        for workload in (WORKLOADS[name] for name in names or WORKLOADS):
            for case, size in workload.cases.items():
                if cases and case and case not in cases:
                    continue

                def told(number: int, side: Side, at: int, of: int, title: str = workload.name) -> None:
                    turn = f"round {number} of {rounds}" if number else "warming up"
                    progress.update(task, description=f"{title} {turn} {side}", completed=at, total=of)

                try:
                    done.append(
                        in_turns(checkouts, workload, case, {**size, **known(other, size)}, rounds, told=told)
                    )
                except Failed as exc:
                    raise click.ClickException(str(exc)) from exc
    result = Versus(
        base=commits[0], head=commits[1], machine=here, cpu=core, rounds=rounds, compared=tuple(done)
    )
    text = result.model_dump_json(indent=1)
    if out is not None:
        out.write_text(text + "\n", "utf-8")
    if as_json:
        print(text)
        return
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(f"{here}; {rounds} rounds", highlight=False)
    console.print(versus_table(result), highlight=False)
