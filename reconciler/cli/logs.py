"""`dra-reconciler logs`: summarize or filter the log lines of `run`."""

import json
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from heapq import nlargest
from pathlib import Path
from typing import Any, TextIO

import click
from msgspec import Struct, field

from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.similar_names import instead, key_instead
from reconciler.cli.exits import NoAnswer, exit_unless
from reconciler.cli.options import Clock, Duration, output_option, pass_clock
from reconciler.cli.output import Console, Table, as_documents, echo_value, print_line, print_table, remark
from reconciler.errors import counted
from reconciler.operations.log_catalogue import EVENTS

MAX_LENGTH = 2**20
"""Characters; longer lines are skipped"""


class Line(Struct, frozen=True):
    """One log line of the reconciler."""

    at: datetime
    event: str
    level: str
    fields: dict[str, Any]

    @property
    def claims(self) -> tuple[str, ...]:
        """The claims of the line, as NAMESPACE/NAME."""
        return self._named("claim")

    @property
    def pods(self) -> tuple[str, ...]:
        """The pods of the line, as NAMESPACE/NAME."""
        return self._named("pod")

    def _named(self, kind: str) -> tuple[str, ...]:
        several, one = self.fields.get(f"{kind}s"), self.fields.get(kind)
        found = [str(name) for name in several] if isinstance(several, list) else []
        found += [one] if isinstance(one, str) else []
        of, _, name = str(self.fields.get("unit", "")).partition(" ")
        return (*found, name) if of == kind else tuple(found)

    @property
    def decision(self) -> str:
        """The id of the decision; empty if none."""
        return str(self.fields.get("decision_id", ""))

    @property
    def milliseconds(self) -> float | None:
        """Duration of the decision, if the line has one."""
        found = self.fields.get("duration_ms")
        return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


class Reader:
    """Reads lines, and counts those of other programs."""

    def __init__(self) -> None:
        self.foreign = 0

    def read(self, texts: Iterable[str]) -> Iterator[Line]:
        """The lines of the reconciler, in order. Raises for no content."""
        for text in texts:
            line = _line(text)
            if line is not None:
                yield line
            elif text.strip():
                self.foreign += 1


def _line(text: str) -> Line | None:
    start = text.find("{")  # kubectl logs --prefix writes a prefix
    if start < 0 or len(text) > MAX_LENGTH:
        return None
    try:
        raw = json.loads(text[start:])
        at = datetime.fromisoformat(raw["timestamp"])
        event, level = raw["event"], raw["level"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not isinstance(event, str) or event not in EVENTS or at.tzinfo is None:
        return None
    return Line(at, event, str(level), raw)


SLOWEST = 10
PERCENTILES = (50, 90, 99)


class Summary(Struct):
    """Counts and latencies."""

    events: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    """Reason -> refusals; repeated refusals of a claim for the same reason count once"""
    waiting: dict[str, str] = field(default_factory=dict)
    """Pending claim -> its latest reason"""
    durations: list[float] = field(default_factory=list)
    """Milliseconds of allocations, in order"""
    slowest: list[Line] = field(default_factory=list)
    causes: Counter[str] = field(default_factory=Counter)
    """Cause of a retry -> retries"""
    problems: Counter[str] = field(default_factory=Counter)
    """Event -> its warnings and errors"""

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "events": dict(self.events),
            "refusals": dict(self.reasons),
            "waiting": dict(Counter(self.waiting.values())),
            "latency_ms": latencies(self.durations),
            "slowest": [dict(line.fields) for line in self.slowest],
            "repeated": dict(self.causes),
            "problems": dict(self.problems),
        }


def summarize(lines: Iterable[Line]) -> Summary:
    """The summary of lines that are ordered by time."""
    found, timed = Summary(), []
    for line in lines:
        found.events[line.event] += 1
        if line.level in ("warning", "error"):
            found.problems[line.event] += 1
        if line.event == "claim pending":
            reason = str(line.fields.get("reason", ""))
            found.reasons[reason] += 1
            found.waiting.update(dict.fromkeys(line.claims, reason))
        elif line.event in ("claim allocated", *ENDS):
            for claim in line.claims:
                found.waiting.pop(claim, None)
        elif line.event == "reconcile will be retried":
            found.causes[str(line.fields.get("cause", "retry"))] += 1
        if line.milliseconds is not None:
            found.durations.append(line.milliseconds)
            timed.append(line)
    found.slowest = nlargest(SLOWEST, timed, key=lambda line: line.milliseconds or 0.0)
    return found


def latencies(durations: Sequence[float]) -> dict[str, float]:
    """Nearest-rank percentiles and the maximum; empty without durations."""
    if not durations:
        return {}
    ordered = sorted(durations)
    ranks = {f"p{p}": ordered[math.ceil(len(ordered) * p / 100) - 1] for p in PERCENTILES}
    return {**ranks, "max": ordered[-1]}


ENDS = ("claim freed", "claim deallocated", "claim deleted")
POLL_SECONDS = 0.5
_HIDDEN = ("timestamp", "level", "logger", "event", "decision_id", "counts")


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True), metavar="FILE|-")
@click.option("--claim", metavar="[NAMESPACE/]CLAIM", help="Show only lines about this claim.")
@click.option("--pod", metavar="[NAMESPACE/]POD", help="Show only lines about this pod and its claims.")
@click.option("--reason", metavar="REASON", help="Show only decisions with this reason.")
@click.option(
    "--slow",
    type=Duration(),
    metavar="DURATION",
    help="Show only decisions that took at least this long: 50ms.",
)
@click.option(
    "--since", type=Duration(), metavar="DURATION", help="Use only lines that are not older than this: 10m."
)
@click.option("--follow", is_flag=True, help="Print new lines until interrupted.")
@output_option("table", "json", "yaml")
@pass_clock
def logs(
    clock: Clock,
    file: str,
    claim: str | None,
    pod: str | None,
    reason: str | None,
    slow: float | None,
    since: float | None,
    follow: bool,
    output: str,
) -> None:
    """Summarize or filter the JSON log lines of `run`; - is standard input.

    Without --claim, --pod, --reason, --slow or --follow, prints a summary: counts by reason, latencies, the
    slowest decisions, conflicts and retries, warnings. With one of them, prints the matching lines.

    \b
    Examples:
      kubectl logs -n dra-reconciler deploy/dra-reconciler > run.log
      dra-reconciler logs run.log
      dra-reconciler logs run.log --claim inference/vision
    """
    reader, seen = Reader(), _Seen()
    texts = _follow(file) if follow else _texts(file)
    oldest = clock.now() - timedelta(seconds=since) if since is not None else None
    matching = (
        line
        for line in seen.noting(reader.read(texts))
        if (oldest is None or line.at >= oldest)
        and (claim is None or str(ObjectKey.parse(claim)) in line.claims)
        and (pod is None or seen.is_about(line, str(ObjectKey.parse(pod))))
        and (reason is None or line.fields.get("reason") == reason)
        and (slow is None or (line.milliseconds or 0.0) >= slow * 1000)
    )
    console = Console(sys.stdout)
    if follow or claim or pod or reason or slow is not None:
        count = _print_lines(matching, console, output, at_once=follow)
    else:
        summary = summarize(matching)
        count = summary.events.total()
        if output == "table":
            _print_summary(summary, console)
        else:
            echo_value(summary.as_json(), output)
    if reader.foreign:
        remark(f"skipped {counted(reader.foreign, 'line')} that dra-reconciler did not write")
    if follow:
        return
    if not seen.any:
        raise NoAnswer("no line of dra-reconciler: is this the log of `run`, as JSON?")
    if not count:
        remark(seen.hint(claim, pod, reason))
    exit_unless(bool(count))


class _Seen:
    """What all lines name, for the message if none of them matches; and the claims of each pod."""

    def __init__(self) -> None:
        self._claims: set[ObjectKey] = set()
        self._pods: dict[ObjectKey, set[str]] = {}
        self._reasons: set[str] = set()
        self.any = False
        """Whether there is any line"""

    def noting(self, lines: Iterable[Line]) -> Iterator[Line]:
        """The same lines."""
        for line in lines:
            self.any = True
            self._claims.update(ObjectKey.parse(name) for name in line.claims)
            for pod in line.pods:
                self._pods.setdefault(ObjectKey.parse(pod), set()).update(line.claims)
            if isinstance(reason := line.fields.get("reason"), str):
                self._reasons.add(reason)
            yield line

    def is_about(self, line: Line, pod: str) -> bool:
        """Whether a line is about a pod, or about a claim of its: that of an end names no pod."""
        return pod in line.pods or not self._pods.get(ObjectKey.parse(pod), set()).isdisjoint(line.claims)

    def hint(self, claim: str | None, pod: str | None, reason: str | None) -> str:
        """Why no line matches."""
        if pod is not None and self._pods and (key := ObjectKey.parse(pod)) not in self._pods:
            return f"no line is about pod {key}{key_instead(key, self._pods.keys(), 'pods')}"
        if claim is not None and self._claims and (key := ObjectKey.parse(claim)) not in self._claims:
            return f"no line is about claim {key}{key_instead(key, self._claims, 'claims')}"
        if reason is not None and self._reasons and reason not in self._reasons:
            return f"no line has the reason {reason}{instead(reason, self._reasons, 'reasons')}"
        return "no line matches all options"


def _texts(file: str) -> Iterator[str]:
    if file == "-":
        yield from sys.stdin
        return
    with Path(file).open(encoding="utf-8", errors="replace") as opened:
        yield from opened


def _follow(file: str) -> Iterator[str]:
    """Yield the existing lines, then new ones. Reopens the file if it was truncated or replaced."""
    if file == "-":
        yield from sys.stdin
        return
    path, rest = Path(file), ""
    opened: TextIO = path.open(encoding="utf-8", errors="replace")
    try:
        while True:
            for text in opened:
                rest += text
                if rest.endswith("\n"):
                    yield rest
                    rest = ""
            time.sleep(POLL_SECONDS)
            if _was_replaced(path, opened):
                opened.close()
                opened, rest = path.open(encoding="utf-8", errors="replace"), ""
    except KeyboardInterrupt:
        return
    finally:
        opened.close()


def _was_replaced(path: Path, opened: TextIO) -> bool:
    try:
        now = path.stat()
    except OSError:
        return False
    return now.st_ino != os.fstat(opened.fileno()).st_ino or now.st_size < opened.tell()


def _print_lines(lines: Iterable[Line], console: Console, output: str, *, at_once: bool) -> int:
    """Print lines and return their number."""
    table = Table(("TIME", "EVENT", "DETAILS", "DECISION"), names=2)
    count = 0
    for line in lines:
        count += 1
        if output == "json":
            click.echo(json.dumps(line.fields))
        elif output == "yaml":
            click.echo(as_documents([line.fields], explicit_start=True), nl=False)
        elif at_once:
            print_line(console, "  ".join(_cells(line)))
        else:
            table.add(_cells(line))
    if table.rows:
        print_table(console, table)
    return count


def _cells(line: Line) -> tuple[str, str, str, str]:
    shown = {key: value for key, value in line.fields.items() if key not in _HIDDEN}
    details = " ".join(f"{key}={_word(value)}" for key, value in shown.items())
    return line.at.isoformat(timespec="milliseconds"), line.event, details, line.decision or "-"


def _word(value: object) -> str:
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value)


def _print_summary(summary: Summary, console: Console) -> None:
    told = [f"{summary.events[end]} {end.split()[1]}" for end in ENDS if summary.events[end]]
    allocated = f"{counted(summary.events['claim allocated'], 'claim')} allocated"
    counts = ", ".join([allocated, *told, f"{len(summary.waiting)} still pending"])
    print_line(console, counts)
    if summary.durations:
        parts = [f"{name} {value:g} ms" for name, value in latencies(summary.durations).items()]
        print_line(console, "time from start of decision until stored: " + ", ".join(parts))
    repeated = ", ".join(f"{count} {cause}" for cause, count in summary.causes.most_common())
    print_line(console, f"reconciles retried: {repeated or 'none'}")
    waiting = Counter(summary.waiting.values())
    rows = [(reason, str(n), str(waiting[reason])) for reason, n in summary.reasons.most_common()]
    _table(console, ("REASON", "REFUSALS", "STILL PENDING"), rows)
    slow = [(f"{line.milliseconds:g} ms", *_cells(line)) for line in summary.slowest]
    _table(console, ("SLOWEST", "TIME", "EVENT", "DETAILS", "DECISION"), slow)
    _table(console, ("PROBLEM", "COUNT"), [(name, str(n)) for name, n in summary.problems.most_common()])


def _table(console: Console, headings: Sequence[str], rows: Iterable[tuple[str, ...]]) -> None:
    table = Table(headings)
    for row in rows:
        table.add(row)
    if table.rows:
        console.print()
        print_table(console, table)
