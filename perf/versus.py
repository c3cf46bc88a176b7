"""Two commits in turns: each round runs both, one right after the other, and compares that pair.

What slows the machine for minutes slows both of a pair, so that the ratios of pairs say more than the ratio
of two medians.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple

import click
import numpy as np
from pydantic import computed_field
from rich.console import Console
from rich.table import Table

from perf.catalogue import WORKLOADS
from perf.child import Failed, run_in_child
from perf.printing import number, size_text
from perf.results import ROOT, Kept, Machine, machine
from perf.workload import Figure, Progress, Size, Workload, known, parsed, progress_bar

MEMORY = "peak memory"
TRIFLE = 1.01
"""A ratio nearer to 1 is no difference, however often it is measured"""
Side = Literal["base", "head"]
LOCK = "requirements.lock"


class Checkout(NamedTuple):
    """One of the two commits: its files, and the interpreter whose packages are those of its lock."""

    root: Path
    python: str


Measure = Callable[[Checkout, str, Size, Progress], Sequence[Figure]]


class Ratio(Kept):
    """One figure at two commits; `gain` above 1 is better."""

    name: str
    unit: str
    better: Literal["more", "less"]
    base: tuple[float, ...]
    head: tuple[float, ...]
    """Of each round"""

    @property
    def gains(self) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
        """(rounds,) how many times better the second commit is, pair by pair; nan where one is zero."""
        base, head = np.array(self.base), np.array(self.head)
        over, under = (head, base) if self.better == "more" else (base, head)
        return np.divide(over, under, out=np.full(len(base), np.nan), where=(over > 0) & (under > 0))

    @computed_field  # type: ignore[prop-decorator]
    @property
    def gain(self) -> tuple[float, float, float]:
        """The lower quartile, the median and the upper quartile of the gains."""
        low, middle, high = np.percentile(self.gains, [25, 50, 75]).tolist()
        return low, middle, high

    @property
    def verdict(self) -> Literal["better", "worse", ""]:
        """Empty unless both quartiles show a difference of more than `TRIFLE`."""
        low, _, high = self.gain
        return "better" if low > TRIFLE else "worse" if high < 1 / TRIFLE else ""


class Compared(Kept):
    """One case of a workload."""

    workload: str
    case: str
    size: Mapping[str, int]
    ratios: tuple[Ratio, ...]


class Versus(Kept):
    """Everything that was compared in one go."""

    format: Literal[1] = 1
    base: str
    head: str
    machine: Machine
    cpu: int | None
    """The only core that was used; None if the processes were not pinned"""
    rounds: int
    compared: tuple[Compared, ...]


def measure(checkout: Checkout, name: str, size: Size, progress: Progress) -> Sequence[Figure]:
    """One run of a commit, in a process of its own: its figures, and its peak memory."""
    outcome, peak = run_in_child(name, size, progress, root=checkout.root, python=checkout.python)
    return [*outcome.figures, Figure(MEMORY, peak, "MiB")]


def in_turns(
    checkouts: Mapping[Side, Checkout],
    workload: Workload,
    case: str,
    size: Size,
    rounds: int,
    *,
    told: Callable[[int, Side, int, int], None],
    run: Measure = measure,
) -> Compared:
    """Run both commits `rounds` times, each first as often as second, after a round that does not count.

    The first round compiles the code of both. `told` hears the round, the side, what is done and of how much.
    """
    values: dict[Side, list[dict[str, Figure]]] = {"base": [], "head": []}
    for turn in range(rounds + 1):
        order: tuple[Side, Side] = ("base", "head") if turn % 2 else ("head", "base")
        for side in order:
            found = run(checkouts[side], workload.name, size, partial(told, turn, side))
            if turn:
                values[side].append({figure.name: figure for figure in found})
    return Compared(workload=workload.name, case=case, size=dict(size), ratios=tuple(_ratios(values)))


def _ratios(values: Mapping[Side, Sequence[Mapping[str, Figure]]]) -> Iterator[Ratio]:
    """The figures that both commits tell in every round, and of which more or less is better."""
    base, head = values["base"], values["head"]
    for name, figure in head[0].items():
        if figure.better and all(name in one for one in (*base, *head)):
            yield Ratio(
                name=name,
                unit=figure.unit,
                better=figure.better,
                base=tuple(one[name].value for one in base),
                head=tuple(one[name].value for one in head),
            )


def resolve(revision: str, repository: Path = ROOT) -> str:
    """The commit that a revision names, abbreviated. Raises LookupError if there is none."""
    done = subprocess.run(
        ["git", "rev-parse", "--verify", "--short=12", f"{revision}^{{commit}}"],
        cwd=repository, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise LookupError(f"{revision} is not a commit of {repository}: {done.stderr.strip()}")
    return done.stdout.strip()


def environments() -> Path:
    """The folder of the virtual environments, one for each lock, which later comparisons use again."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache, "dra-reconciler", "perf")


def interpreter(root: Path, folder: Path) -> str:
    """A Python with exactly the packages of the lock at `root`; this one if that commit has no lock.

    The environment is made in `folder` once for each lock and version of Python, and completed by a rename:
    one that was interrupted is not used. Raises CalledProcessError if the packages cannot be installed.
    """
    lock = root / LOCK
    if not lock.exists():
        return sys.executable
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    target = folder / f"{version}-{sha256(lock.read_bytes()).hexdigest()[:16]}"
    if not target.exists():
        unfinished = target.with_suffix(f".{os.getpid()}")
        rmtree(unfinished, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(unfinished)], check=True)
        install = [str(unfinished / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        install += ["--disable-pip-version-check", "--require-hashes", "-r", str(lock)]
        subprocess.run(install, check=True)
        unfinished.rename(target)
    return str(target / "bin" / "python")


@contextmanager
def worktrees(base: str, head: str, repository: Path = ROOT) -> Iterator[Mapping[Side, Checkout]]:
    """Both commits in a temporary folder, which is removed at the end, each with the packages of its lock."""
    with TemporaryDirectory(prefix="perf-versus-") as folder:
        roots: dict[Side, Path] = {"base": Path(folder, "base"), "head": Path(folder, "head")}
        try:
            for root, commit in zip(roots.values(), (base, head), strict=True):
                _git(repository, "worktree", "add", "--quiet", "--detach", str(root), commit)
            yield {side: Checkout(root, interpreter(root, environments())) for side, root in roots.items()}
        finally:
            for root in roots.values():
                if root.exists():
                    _git(repository, "worktree", "remove", "--force", str(root))


@contextmanager
def pinned(*, wanted: bool) -> Iterator[int | None]:
    """Run this process and those that it starts on one core, if the system can; yields which."""
    if not wanted or not hasattr(os, "sched_setaffinity"):
        yield None
        return
    before = os.sched_getaffinity(0)
    core = max(before)
    os.sched_setaffinity(0, {core})
    try:
        yield core
    finally:
        os.sched_setaffinity(0, before)


def _git(repository: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=repository, check=True, capture_output=True)


def versus_table(done: Versus) -> Table:
    """Both medians, the median of the pairs' ratios with its quartiles, and whether these agree."""
    table = Table(box=None, pad_edge=False)
    table.add_column("figure")
    for heading in (done.base, done.head, "gain", "quartiles"):
        table.add_column(heading, justify="right")
    table.add_column("")
    colours = {"better": "[green]better", "worse": "[red]worse", "": ""}
    for one in done.compared:
        table.add_section()
        table.add_row(f"[bold]{one.workload} {one.case}".rstrip(), "", "", "", "", size_text(one.size))
        for ratio in one.ratios:
            low, middle, high = ratio.gain
            medians = [f"{number(float(np.median(side)))} {ratio.unit}" for side in (ratio.base, ratio.head)]
            spread = f"{low:.3f} to {high:.3f}"
            table.add_row(f"  {ratio.name}", *medians, f"{middle:.3f}", spread, colours[ratio.verdict])
    return table


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
    here, done, failed = machine(), [], []
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
                except Failed as exc:  # what was measured before is not lost, and the rest is measured
                    failed.append(str(exc))
    result = Versus(
        base=commits[0], head=commits[1], machine=here, cpu=core, rounds=rounds, compared=tuple(done)
    )
    text = result.model_dump_json(indent=1)
    if out is not None:
        out.write_text(text + "\n", "utf-8")
    if as_json:
        print(text)
    else:
        console = Console(width=None if sys.stdout.isatty() else 140)
        console.print(f"{here}; {rounds} rounds", highlight=False)
        console.print(versus_table(result), highlight=False)
    if failed:
        raise click.ClickException("; ".join(failed))
