"""Lets the loop wake the admission check: one unit stands for all Workloads that wait for room."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from functools import partial

import structlog
from msgspec import Struct

from reconciler.allocation.gangs.kinds import GangUnsatisfied
from reconciler.allocation.placement.placing import refusal_reason
from reconciler.api.objects.core import WORKLOAD
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.validation.fields import timestamp
from reconciler.app.control import Control, Host, Running, watch_job
from reconciler.app.foundation import now
from reconciler.app.from_settings import Job
from reconciler.cluster.client import Client, Raw
from reconciler.cluster.discovery import Right, missing_rights
from reconciler.cluster.kinds import Resource
from reconciler.control.decisions.declaration import Report
from reconciler.control.decisions.every import WorkloadChecked
from reconciler.control.handler import Handler, Idle
from reconciler.control.held_room import HeldRoomKeeper
from reconciler.control.intake import Intake
from reconciler.control.loop import Failures
from reconciler.control.ownership import Ownership
from reconciler.control.units import Kind, Unit
from reconciler.control.waiting import Wants
from reconciler.errors import ReconcilerError, Rejected, Undecided
from reconciler.plugins.kueue.objects import CONTROLLER, GROUP, Workload
from reconciler.plugins.kueue.questions import Known, WorkloadHolds, WorkloadSearch, pods_of, questions_of
from reconciler.plugins.kueue.served import KueueKinds, KueueObjects, KueueWriter, kueue_kinds
from reconciler.settings import Settings
from reconciler.state.nominations import HeldPlace, of_workload
from reconciler.state.on_demand import NOT_LISTED

UNIT = Unit(Kind.WORKLOAD, ObjectKey("", "kueue"))
ANY_ROOM = Wants(frozenset(), room=True, crowded=True, awaits_pods=True, awaits_binding=True)


class KueueWakeUps(Handler):
    """Serves that unit: whatever wakes it wakes the check, which does the rest beside the loop."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self.woken = asyncio.Event()

    def arm(self, seconds: float) -> None:
        """Wake the check at the next change that may help anybody, at the latest after so many seconds."""
        self._intake.waiting.add(UNIT, ANY_ROOM)
        self._intake.put(UNIT, after=seconds)

    def next(self, unit: Unit) -> Idle | None:
        if unit.kind is not Kind.WORKLOAD:
            return None
        self.woken.set()
        return Idle()


log = structlog.get_logger()

PAUSE = 0.2
"""Seconds between two rounds: many events may come at once"""
SOONER = 60.0
"""Seconds after which everything that waits is looked at again, whatever happens. A safety net"""
MAX_MESSAGE = 1_000
"""Characters of a message; Kueue allows 32,768 for all that people read"""
JOB = "admission check"
PENDING, READY, RETRY = "Pending", "Ready", "Retry"
OF_ANSWERS = ("podSetUpdates", "requeueAfterSeconds")
"""Fields of a check that belong to one answer: the next one does not keep them"""


class Terms(Struct, frozen=True):
    """How long is waited, in seconds."""

    check: str
    """Name of the AdmissionCheck"""
    retry_after: float
    """How long a Workload keeps its quota without room"""
    requeue_after: int
    """How long Kueue waits then before it reserves quota again"""
    hold: float
    """How long room is held for pods that do not come"""


class _Refusal(Struct, frozen=True):
    """Why a Workload has no room, and in which state that was found."""

    reason: str
    message: str
    state: tuple[object, ...]
    until: float
    """When it is found again although no change was seen: kinds that are listed on demand are not counted"""


class AdmissionChecker:
    """Answers in rounds, the most urgent Workload first."""

    def __init__(
        self,
        intake: Intake,
        writer: KueueWriter,
        ours: Ownership,
        terms: Terms,
        wake_ups: KueueWakeUps,
        *,
        steps: int,
        leads: asyncio.Event,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        report: Report,
        failures: Failures,
        written: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`leads` is set while this process may write; `clock` is that of the loop; `now` the time of day;
        `written` waits until held room is written down, where it is.
        """
        self._intake, self._writer, self._ours, self._terms = intake, writer, ours, terms
        self._search = WorkloadSearch(intake, ours, steps=steps)
        self._holds = WorkloadHolds(intake, seconds=terms.hold, clock=clock, now=now)
        self._leads, self._clock, self._now, self._report = leads, clock, now, report
        self._written = written
        self._failures = failures
        self._refused: dict[ObjectKey, _Refusal] = {}
        self._failed: dict[str, float] = {}
        """Name -> until when it is not looked at, since that ended in an internal error"""
        self._wake_ups, self._woken = wake_ups, wake_ups.woken
        self.objects = KueueObjects(self._woken.set)
        """What the watches show"""

    async def run(self) -> None:
        """Answer until cancelled."""
        await self._intake.listed.wait()
        await self.objects.listed.wait()
        try:
            while True:
                await self._leads.wait()
                self._woken.clear()
                self._wake_ups.arm(SOONER)  # from now on: what changes during the round counts
                left = SOONER
                with self._failures.contained(JOB):
                    await self._round()
                    left = min(SOONER, self._next_retry())
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(left, 1.0)):
                        await self._woken.wait()
                await asyncio.sleep(PAUSE)
        finally:
            self._search.close()

    async def _round(self) -> None:
        """Look at everything once. An error of one object does not stop the others."""
        self._holds.end(self.objects.workloads)
        await self._attempt(self._terms.check, self._activate)
        for workload in sorted(self._waiting(), key=_urgency):
            if self._leads.is_set():
                await self._attempt(str(workload.key), partial(self._check, workload.key))
        self._refused = {key: one for key, one in self._refused.items() if key in self.objects.workloads}
        self._failed = {name: until for name, until in self._failed.items() if until > self._clock()}

    async def _attempt(self, name: str, step: Callable[[], Awaitable[None]]) -> None:
        if self._failed.get(name, 0.0) > self._clock():
            return
        self._failed[name] = self._clock() + SOONER
        with self._failures.contained(JOB, name):
            try:
                await step()
            except ReconcilerError as exc:  # a conflict or an event brings the newer version
                if isinstance(exc, Rejected):
                    log.warning("admission check not written", name=name, error=str(exc))
            del self._failed[name]

    def _waiting(self) -> list[Workload]:
        """Workloads with quota that wait for our answer."""
        return [one for one in self.objects.workloads.values() if self._waits(one)]

    def _waits(self, workload: Workload) -> bool:
        if not self._serves() or workload.metadata.deletion_timestamp or workload.spec.active is False:
            return False
        if workload.condition("QuotaReserved") is None or workload.condition("Finished") is not None:
            return False
        found = workload.check(self._terms.check)
        state = None if found is None else found[1].get("state")
        return state == PENDING or (state == READY and self._lapsed(workload))

    def _lapsed(self, workload: Workload) -> bool:
        """Whether its room is not held any more before other checks let its pods come.

        Pods may be seen before the condition Admitted that let them come: their watches are separate.
        """
        held = self._intake.store.nominations.get(of_workload(workload.key))
        return held is None and workload.condition("Admitted") is None and not self._holds.used(workload)

    def _serves(self) -> bool:
        check = self.objects.checks.get(ObjectKey("", self._terms.check))
        return check is not None and check.spec.controller_name == CONTROLLER

    async def _activate(self) -> None:
        """Say that the check is served; or log why it is not."""
        check = self.objects.checks.get(ObjectKey("", self._terms.check))
        if check is None or check.spec.controller_name != CONTROLLER:
            return
        if any((one.get("type"), one.get("status")) == ("Active", "True") for one in check.status.conditions):
            return
        condition: Raw = {
            "type": "Active",
            "status": "True",
            "reason": "Active",
            "message": "dra-reconciler answers this check",
            "lastTransitionTime": timestamp(self._now()),
        }
        if check.metadata.generation is not None:
            condition["observedGeneration"] = check.metadata.generation
        self._intake.pause.check()
        await self._writer.activate(check, condition)

    async def _check(self, key: ObjectKey) -> None:
        """Answer for one Workload, if it still waits."""
        workload = self.objects.workloads.get(key)
        if workload is None or not self._waits(workload):
            return
        state = self._state_for(workload)
        known = self._refused.get(key)
        if known is None or known.state != state or known.until <= self._clock():
            answer = await self._decided(workload)
            if answer is None or self.objects.workloads.get(key) is not workload or not self._leads.is_set():
                self._woken.set()
                return
            if not isinstance(answer, GangUnsatisfied):
                await self._admit(workload, answer)
                return
            until = self._clock() + (0.0 if answer.reason == NOT_LISTED else SOONER)
            known = self._refused[key] = _Refusal(answer.reason, answer.message, state, until)
        await self._refuse(workload, known)

    def _state_for(self, workload: Workload) -> tuple[object, ...]:
        """Equal while the answer cannot differ."""
        own = frozenset([of_workload(workload.key)])
        version = self._intake.store.snapshot_for(own).version
        state = version, self._intake.nodes.serial, self.objects.serial
        return *state, workload.metadata.uid, workload.spec, workload.status.admission

    async def _decided(self, workload: Workload) -> tuple[HeldPlace, ...] | GangUnsatisfied | None:
        known = Known(self.objects.flavors, self.objects.templates, self._intake.store.claims)
        ask = partial(questions_of, workload, known, self._ours.restricted)
        try:
            return await self._search.answer(ask, pods_of(workload), frozenset([of_workload(workload.key)]))
        except Rejected as exc:
            return GangUnsatisfied(refusal_reason(exc), str(exc))

    async def _admit(self, workload: Workload, places: tuple[HeldPlace, ...]) -> None:
        """Hold the room, then let Kueue admit the Workload. No await before the room is held."""
        self._intake.pause.check()
        until = self._holds.hold(workload, places)
        self._refused.pop(workload.key, None)
        if self._written is not None:
            await self._written()  # a next leader holds it, too
        count = pods_of(workload)
        message = f"{count} pod{' has' if count == 1 else 's have'} room, which is held until {until}"
        mark = {WORKLOAD: workload.key.name}
        updates = [{"name": one.name, "annotations": mark} for one in workload.spec.pod_sets]
        try:
            await self._write(workload, READY, "", message, {"podSetUpdates": updates})
        except Undecided:
            raise  # it may have been written: the watch tells, and the deadline ends the hold
        except Exception:
            self._holds.drop(workload.key, "its check could not be written")
            raise

    async def _refuse(self, workload: Workload, known: _Refusal) -> None:
        """Say why there is no room; after a while, give the quota back."""
        if self._seconds_left(workload) <= 0:
            seconds = self._terms.requeue_after
            await self._write(workload, RETRY, known.reason, known.message, {"requeueAfterSeconds": seconds})
            return
        found = workload.check(self._terms.check)
        if found is not None and found[1].get("message") != _message(known.reason, known.message):
            await self._write(workload, PENDING, known.reason, known.message, {})

    async def _write(self, workload: Workload, state: str, reason: str, message: str, fields: Raw) -> None:
        found = workload.check(self._terms.check)
        assert found is not None  # it waits for the check
        at, before = found
        self._intake.pause.check()
        kept = {name: value for name, value in before.items() if name not in OF_ANSWERS}
        changed = {"lastTransitionTime": timestamp(self._now())} if before.get("state") != state else {}
        text = _message(reason, message)
        await self._writer.write_state(
            workload, at, {**kept, "state": state, "message": text, **changed, **fields}
        )
        self._report(WorkloadChecked(workload.key, state, reason, message))

    def _seconds_left(self, workload: Workload) -> float:
        """How long it may keep its quota without room."""
        since = workload.quota_since
        if since is None:
            return self._terms.retry_after
        return self._terms.retry_after - (self._now() - since).total_seconds()

    def _next_retry(self) -> float:
        """Seconds until a Workload gives back its quota."""
        left = (self._seconds_left(one) for one in self._waiting())
        return max(min(left, default=SOONER), 0.0)


def _urgency(workload: Workload) -> tuple[int, str, ObjectKey]:
    """The highest priority first, then the oldest."""
    created = workload.metadata.creation_timestamp or "~"
    return -(workload.spec.priority or 0), created, workload.key


def _message(reason: str, message: str) -> str:
    text = f"{reason}: {message}" if reason else message
    return text if len(text) <= MAX_MESSAGE else f"{text[: MAX_MESSAGE - 3]}..."


_READ = ("list", "watch")
RIGHTS = (
    *(Right(verb, "workloads", GROUP) for verb in _READ),
    *(Right(verb, "admissionchecks", GROUP) for verb in _READ),
    *(Right(verb, "resourceflavors", GROUP) for verb in _READ),
    *(Right(verb, "resourceclaimtemplates", "resource.k8s.io") for verb in _READ),
    Right("patch", "workloads/status", GROUP),
    Right("patch", "admissionchecks/status", GROUP),
)


async def kinds_for_check(settings: Settings, client: Client) -> KueueKinds:
    """The kinds that the check needs.

    Raises Rejected if the server does not serve them, or if this account lacks rights.
    """
    if settings.shard:
        raise Rejected("setting kueue_check: a shard knows a part of the fleet only; unset it, or shard")
    found = await kueue_kinds(client, settings.kueue_check)
    lacking = await missing_rights(client, RIGHTS)
    if lacking:
        raise Rejected(
            f"setting kueue_check needs rights that this account does not have: "
            f"{', '.join(map(str, lacking))}. Add deploy/components/kueue, or set the value kueueCheck of "
            "the chart"
        )
    return found


class KueueRunning(Running):
    """The check, its watches, and the handler that wakes it."""

    def __init__(self, kinds: KueueKinds, claims: Resource, host: Host) -> None:
        """`claims` are ResourceClaims as the server has them."""
        self._kinds, self._claims, self._host = kinds, claims, host
        self.handler = self._wake_ups = KueueWakeUps(host.intake)

    def jobs(self, core: Control, keeper: HeldRoomKeeper | None) -> list[Job]:
        host, kinds, settings = self._host, self._kinds, self._host.base.settings
        client = core.connection.client
        checker = AdmissionChecker(
            core.intake,
            KueueWriter(client, kinds),
            host.ours,
            Terms(
                settings.kueue_check,
                settings.fixed.kueue_retry_seconds,
                settings.fixed.kueue_requeue_seconds,
                settings.fixed.kueue_hold_seconds,
            ),
            self._wake_ups,
            steps=settings.search_steps,
            leads=core.fence.up,
            clock=host.base.clock,
            now=now,
            report=host.report,
            written=None if keeper is None else keeper.written,
            failures=core.failures,
        )
        templates = Resource(
            "ResourceClaimTemplate",
            "resource.k8s.io",
            self._claims.version,
            "resourceclaimtemplates",
            namespaced=True,
        )
        return [
            *(
                watch_job(f"watch {one.full_name} for Kueue", client, one, checker.objects.take)
                for one in (kinds.workload, kinds.check, kinds.flavor, templates)
            ),
            Job("admission check", checker.run),
        ]
