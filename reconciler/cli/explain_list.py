"""`explain` without a name: a line for each pending pod or claim, and why, of manifests or a cluster."""

import asyncio
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import replace

from reconciler.allocation.placement.order import queue_key
from reconciler.allocation.policies.selection import Policies
from reconciler.api.manifests.bundle import Bundle, Claims
from reconciler.api.objects.changes import Change
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod, claims_of, is_live
from reconciler.api.objects.gangs import GangKey
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted, Unsatisfied
from reconciler.api.objects.semantics import Semantics
from reconciler.api.validation.fields import age
from reconciler.cli import output as printing
from reconciler.cli.cluster import KINDS, connected, following, from_cluster, list_objects, split_held_room
from reconciler.cli.connection import Connection
from reconciler.cli.exits import exit_unless
from reconciler.cli.explain import FITS
from reconciler.cli.explain_cluster import answer_now, gang_now, intake_of, planners
from reconciler.cli.input import read_files
from reconciler.cli.options import FOR_PEOPLE, Clock
from reconciler.control.gangs.planner import GangPlanner
from reconciler.control.handler import Blocked, Decide
from reconciler.control.intake import Intake
from reconciler.control.offline import Report, decide
from reconciler.control.planner import Planner
from reconciler.control.units import Kind, Unit, gang_unit

GONE = "NotPending"
"""Instead of a reason, once something that was listed has its devices or is deleted"""
WATCH_SECONDS = 2.0
"""Between two looks at a cluster that is watched, at least"""


class Line(Struct, frozen=True):
    """A pod or a claim that is waiting."""

    claims: tuple[ObjectKey, ...]
    """None for a pod that asks for devices of a plugin"""
    pod: ObjectKey | None
    reason: str
    message: str
    missing: str
    """`gpu: 2 of 8`: how much of what a request needs passes all tests; empty if the reason is no shortage"""
    created: str
    labels: Mapping[str, str]

    @property
    def namespace(self) -> str:
        """That of the pod and its claims."""
        return (self.pod or self.claims[0]).namespace

    def as_json(self) -> dict[str, Any]:
        """For `-o json` and `-o yaml`."""
        return {
            "namespace": self.namespace,
            "claims": [key.name for key in self.claims],
            "pod": self.pod.name if self.pod else None,
            "reason": self.reason,
            "message": self.message,
            "missing": self.missing or None,
            "created": self.created or None,
        }


class Selection(Struct, frozen=True):
    """What is listed."""

    namespace: str | None
    """None for all"""
    labels: str
    reason: str | None

    @property
    def words(self) -> str:
        """It, in words; empty if it is everything."""
        return (
            (f" for reason {self.reason}" if self.reason else "")
            + (f" with labels {self.labels}" if self.labels else "")
            + (f" in namespace {self.namespace}; -A looks in all" if self.namespace is not None else "")
        )

    def of(self, lines: Iterable[Line]) -> list[Line]:
        """The selected lines."""
        # Late import: only for this option.
        from reconciler.embedded.reading import label_predicate  # noqa: PLC0415

        fits = label_predicate(self.labels) if self.labels else None
        return [
            line
            for line in lines
            if self.namespace in (None, line.namespace)
            and self.reason in (None, line.reason)
            and (fits is None or fits({"metadata": {"labels": line.labels}}))
        ]


def of_manifests(bundle: Bundle, rules: Semantics, report: Report) -> list[Line]:
    """What `allocate` leaves waiting."""
    claims = Claims(bundle, rules)
    pods = {pod.key: pod for pod in claims.pods}
    lines = [
        _line(
            [claims.typed(key) for key in answer.claims if key in claims.entries],
            pods.get(answer.pod) if answer.pod is not None else None,
            *(answer.reason, answer.message, _missing(answer.outcome)),
        )
        for answer in report.waiting
    ]
    if report.devices is not None:
        lines += [_line([], pods[key], why.reason, why.message, "") for key, why in report.devices.refused]
    return lines


def _line(claims: Sequence[ResourceClaim], pod: Pod | None, reason: str, message: str, missing: str) -> Line:
    first = pod or claims[0]
    labels = {**first.metadata.labels, **(claims[0].metadata.labels if claims else {})}
    return Line(
        tuple(claim.key for claim in claims),
        pod.key if pod else None,
        reason,
        message,
        missing,
        first.metadata.creation_timestamp or "",
        labels,
    )


def _missing(outcome: object) -> str:
    if not isinstance(outcome, Unsatisfied):
        return ""
    short = (
        f"{one.request}: {one.gates[-1].left} of {one.wanted}"
        for one in outcome.counts
        if one.wanted is not None and one.gates and one.gates[-1].left < one.wanted
    )
    return ", ".join(short)


async def of_cluster(connection: Connection, rules: Semantics, policies: Policies) -> list[Line]:
    """What is pending on a cluster now: each as if it came next. Raises ReconcilerError or OSError."""
    raws, held = split_held_room(await list_objects(KINDS, connection, volumes=True))
    return list(_waiting(intake_of(raws, rules, held), policies))


async def watch(
    connection: Connection, rules: Semantics, policies: Policies, show: Callable[[list[Line]], None]
) -> None:
    """Show the lines that are new or changed, or pending no more, until interrupted.

    Raises ReconcilerError or OSError.
    """
    from reconciler.cluster.discovery import discover  # noqa: PLC0415 - only for this

    intake, changed = intake_of((), rules), asyncio.Event()
    before: dict[object, Line] = {}

    def take(change: Change) -> None:
        intake.take(change)
        changed.set()

    async with connected(connection) as client:
        served = await discover(client, also=KINDS)
        kinds = [kind for kind in KINDS if kind in served]
        async with following(client, served, kinds, take):
            while True:
                changed.clear()
                now: dict[object, Line] = {
                    line.pod or line.claims: line for line in _waiting(intake, policies)
                }
                left = {claim for line in now.values() for claim in line.claims}
                gone = [
                    line for key, line in before.items() if key not in now and left.isdisjoint(line.claims)
                ]
                show(
                    [line for key, line in now.items() if before.get(key) != line]
                    + [replace(line, reason=GONE, message="pending no more", missing="") for line in gone]
                )
                before = now
                await asyncio.sleep(WATCH_SECONDS)
                await changed.wait()


def _waiting(intake: Intake, policies: Policies) -> Iterator[Line]:
    planner, gangs = planners(intake, policies)
    store = intake.store
    of_gang: dict[GangKey, tuple[str, str, str] | None] = {}
    pods = (pod for pod in store.pods.values() if is_live(pod) and not pod.spec.node_name)
    alone = (
        claim for key, claim in store.claims.items() if not claim.allocation and not intake.roster.users(key)
    )
    waiting: list[Pod | ResourceClaim] = [*pods, *alone]
    for thing in sorted(waiting, key=queue_key):
        if isinstance(thing, ResourceClaim):
            why = _why(Unit(Kind.CLAIM, thing.key), planner, intake, policies)
            if why is not None:
                yield _line([thing], None, *why)
            continue
        named = [store.claims[key] for key in claims_of(thing) if key in store.claims]
        pending = [claim for claim in named if not claim.allocation]
        if not pending:
            continue
        gang = next(iter(intake.gangs.of([thing.key])), None)
        if gang is not None and gangs.serves(gang_unit(gang)):
            if gang not in of_gang:
                of_gang[gang] = _why_gang(gang, gangs, intake)
            why = of_gang[gang]
        else:
            why = _why(Unit(Kind.POD, thing.key), planner, intake, policies)
        if why is not None:
            yield _line(pending, thing, *why)


def _why(unit: Unit, planner: Planner, intake: Intake, policies: Policies) -> tuple[str, str, str] | None:
    """Reason, message and what is missing; None if the unit waits for nothing."""
    match planner.next(unit):
        case Blocked(reason=reason, message=message):
            return reason, message, ""
        case Decide() as planned:
            answer = answer_now(planned, intake.store.snapshot_for(planned.own), policies)
            if isinstance(answer, Granted):
                return FITS, f"fits on {answer.node or 'any node'} now", ""
            message = "; ".join(filter(None, [answer.message, planner.left_out(planned)]))
            return answer.reason, message, _missing(answer)
    return None


def _why_gang(gang: GangKey, gangs: GangPlanner, intake: Intake) -> tuple[str, str, str] | None:
    match gang_now(gang, gangs, intake):
        case Blocked(reason=reason, message=message):
            return reason, f"gang {gang}: {message}", ""
        case None:
            return None
    return FITS, f"gang {gang} can be placed, or is being written", ""


def list_pending(
    files: tuple[str, ...],
    connection: Connection,
    selection: Selection,
    rules: Semantics,
    options: Mapping[str, str],
    policies: Policies,
    output: str,
    clock: Clock,
    steps: int,
    *,
    watched: bool,
) -> None:
    """List what is pending, and exit with `Exit.NO` if anything is."""
    console = printing.Console(sys.stdout)

    def show(lines: list[Line]) -> None:
        if chosen := selection.of(lines):
            print_lines(chosen, output, console, clock.now())

    if watched:
        with suppress(KeyboardInterrupt):
            from_cluster(watch(connection, rules, policies, show))
        return
    with printing.track_progress(quiet=output not in FOR_PEOPLE) as progress:
        if files:
            bundle = read_files(files, progress)
            progress.stage("allocating claims")
            report = decide(
                bundle, rules, steps=steps, policies=policies, options=options, on_question=progress.step
            )
            lines = of_manifests(bundle, rules, report)
        else:
            progress.stage("reading the cluster")
            lines = from_cluster(of_cluster(connection, rules, policies))
    chosen = selection.of(lines)
    print_lines(chosen, output, console, clock.now(), nothing=f"nothing is pending{selection.words}")
    exit_unless(not chosen)


def print_lines(
    lines: list[Line], output: str, console: printing.Console, now: datetime, *, nothing: str = ""
) -> None:
    """Print the lines as the option says; `nothing` if there is none."""
    if output in ("json", "yaml"):
        printing.echo_value({"waiting": [line.as_json() for line in lines]}, output)
    elif output == "name":
        for line in lines:
            for key in line.claims:
                click.echo(printing.object_name("ResourceClaim", key.name))
            if not line.claims and line.pod is not None:
                click.echo(printing.object_name("Pod", line.pod.name))
    elif lines:
        printing.print_table(console, _table(lines, now, wide=output == "wide"), wide=output == "wide")
    elif nothing:
        printing.print_line(console, nothing)


def _table(lines: Iterable[Line], now: datetime, *, wide: bool) -> printing.Table:
    more = ("MESSAGE",) if wide else ()
    table = printing.Table(("NAMESPACE", "CLAIM", "POD", "REASON", "AGE", "MISSING", *more), names=3)
    for line in lines:
        claims = "\n".join(key.name for key in line.claims) or "-"
        since = age(line.created, now) if line.created else "-"
        cells = (line.namespace, claims, line.pod.name if line.pod else "-", line.reason, since)
        table.add((*cells, line.missing or "-", *((line.message,) if wide else ())))
    return table
