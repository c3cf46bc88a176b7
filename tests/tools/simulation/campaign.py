"""`python -m tests.tools.simulation.campaign FILE`: play many schedules of all kinds, over days if need be.

FILE gets one line a schedule. Called again with the same file, a part goes on after what was played; parts
with different numbers have disjoint seeds, so that several machines can play at once.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any

import click

from tests.tools.simulation import handing_over
from tests.tools.simulation.schedule import Outcome, run

EXTENDED = "extended"
"""With extended resources, whose claims kube-scheduler makes"""
TURNS = (
    "", "gangs", "evictions", "", "moves", "pair", EXTENDED, "announced", "bursts", "sockets",
    "", "gangs", "evictions", "", "moves", "pair", "gangs", EXTENDED, "announced", "gangs",
)  # fmt: skip
"""The kinds by which seeds are played in turns; empty: one replica without what the others have. Every fifth
gang is a tree of two"""
PART = 1_000_000
"""Seeds of a part. Those below the first part are for `make test` and `make soak`"""


def kind_of(seed: int) -> str:
    return TURNS[seed % len(TURNS)]


def play(seed: int) -> Outcome:
    kind = kind_of(seed)
    if kind == EXTENDED:
        return handing_over.run(seed)
    return run(seed, *filter(None, [kind]))


def played(record: Path) -> list[dict[str, Any]]:
    """What a record says. A line that was cut off by a kill is played again."""
    text = record.read_text() if record.exists() else ""
    complete = text[: text.rfind("\n") + 1]
    if complete != text:
        record.write_text(complete)
    return [json.loads(line) for line in complete.splitlines()]


@click.command()
@click.argument("record", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--part", type=click.IntRange(0), default=0, show_default=True)
@click.option("--schedules", type=int, default=5_000, show_default=True, help="All of this part.")
@click.option("--seconds", type=float, default=float("inf"), help="Start none after this time.")
@click.option("--processes", type=int, default=2, show_default=True)
def main(record: Path, part: int, schedules: int, seconds: float, processes: int) -> None:
    """Play what a part lacks, and sum up the record. Exit code 1 if anything was found, now or before."""
    began = perf_counter()
    first = 10 * PART + part * PART
    known = {line["seed"] for line in played(record)}
    missing = (seed for seed in range(first, first + min(schedules, PART)) if seed not in known)
    in_time = (seed for seed in missing if perf_counter() - began < seconds)
    with record.open("a") as lines:
        for outcome in map(play, in_time) if processes == 1 else _played(in_time, processes):
            new = {"seed": outcome.seed, "kind": kind_of(outcome.seed), "findings": outcome.findings}
            lines.write(json.dumps(new | {"trees": outcome.count["trees"]}) + "\n")
            lines.flush()
    all_of_it = played(record)
    kinds = Counter(str(line["kind"] or "plain") for line in all_of_it)
    for kind, number in kinds.most_common():
        print(f"{number:9}  {number / len(all_of_it):4.0%}  {kind}")
    print(
        f"{sum('trees' in line and line['trees'] > 0 for line in all_of_it):9}  of these with trees of gangs"
    )
    failed = [line for line in all_of_it if line["findings"]]
    for line in failed:
        flag = f"--kind {line['kind']} " if line["kind"] else ""
        print(f"\n{flag}--seed {line['seed']}:", *line["findings"][:3], sep="\n  ")
    print(f"\n{len(all_of_it)} schedules, {len(failed)} with findings")
    sys.exit(bool(failed))


def _played(seeds: Iterator[int], processes: int) -> Iterator[Outcome]:
    """Their outcomes in order. Only so many are submitted at a time, so that a time limit can end them."""
    with ProcessPoolExecutor(processes, max_tasks_per_child=500) as pool:
        waiting = [pool.submit(play, seed) for _, seed in zip(range(2 * processes), seeds, strict=False)]
        while waiting:
            yield waiting.pop(0).result()
            waiting += [pool.submit(play, seed) for _, seed in zip(range(1), seeds, strict=False)]


if __name__ == "__main__":
    main()
