"""Machines and pods as the watches report them: what pods request and hold, and what a change may wake."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from reconciler.api.migrate.special_claims import served_by_classes
from reconciler.api.objects.changes import Change, Changed, Recorded, Refused, Removed, Replaced
from reconciler.api.objects.claims import DeviceClass
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.pinning import pinned
from reconciler.control.decisions.allocating import AllocationUnreadable, Overdrawn
from reconciler.control.decisions.declaration import Report
from reconciler.control.handler import Blocked
from reconciler.control.inputs import PluginInput
from reconciler.control.intake import Intake
from reconciler.control.units import Kind, Unit
from reconciler.errors import Malformed
from reconciler.plugins.koordinator.demand import Demand, Failure
from reconciler.plugins.koordinator.fleet import Fleet
from reconciler.plugins.koordinator.holdings import Holder, holder, holder_of_all, overdrawn
from reconciler.plugins.koordinator.reasons import IN_A_GANG
from reconciler.plugins.koordinator.vocabulary import ALLOCATED, PLUGIN, Device
from reconciler.state.store import older


class Grant(Struct, frozen=True):
    """Devices for one pod, decided but not known to be written."""

    pod: Pod
    """As it was when the decision was made"""
    demand: Demand
    held: Holder
    text: str
    """The annotation that records it"""


class KoordinatorState:
    """What is known. Older versions of a pod are ignored; an assumed grant stays until its write shows."""

    def __init__(self, fleet: Fleet, report: Report) -> None:
        self.fleet = fleet
        self._report = report
        self._devices: dict[str, Device] = {}
        self._gone: dict[str, Device] = {}
        """The last Device objects of machines without a readable one"""
        self._readable: dict[ObjectKey, Pod] = {}
        """The last readable versions of pods that hold devices and cannot be read now"""
        self._labels: dict[str, Mapping[str, str]] = {}
        self._pods: dict[ObjectKey, Pod] = {}
        self._demands: dict[ObjectKey, Demand | Failure] = {}
        self._held: dict[ObjectKey, Holder] = {}
        self._unreadable: dict[ObjectKey, Pod] = {}
        """Pods that count as holding all devices of their types"""
        self._assumed: dict[ObjectKey, Grant] = {}
        self._problems: dict[tuple[str, ObjectKey], str] = {}
        self._reported: dict[DeviceID, tuple[ObjectKey, ...]] = {}
        self.room = 0
        """Grows whenever a pending pod may find new devices"""

    def pod(self, key: ObjectKey) -> Pod | None:
        """A pod that requests or holds devices; None for all others."""
        return self._pods.get(key)

    def demand(self, key: ObjectKey) -> Demand | Failure | None:
        """What a gated pod requests, or why it is refused."""
        return self._demands.get(key)

    @property
    def asking(self) -> Iterable[ObjectKey]:
        """The gated pods that request devices."""
        return self._demands.keys()

    def leaves_to_class(self, pod: Pod, classes: Mapping[str, DeviceClass]) -> bool:
        """Whether a class serves the same name, and no machine has devices: then the class comes first."""
        return not self.has_machines and bool(served_by_classes(pod, classes))

    @property
    def has_machines(self) -> bool:
        """Whether there are Device objects."""
        return bool(self._devices)

    def keeps_from_gang(self, key: ObjectKey, classes: Mapping[str, DeviceClass]) -> Blocked | None:
        """Why a gated pod cannot be placed with a gang; None if it can."""
        if key not in self._demands or self.leaves_to_class(self._pods[key], classes):
            return None
        why = f"pod {key} requests Koordinator's devices; gangs may use ResourceClaims only"
        return Blocked((), IN_A_GANG, why)

    def assumed(self, key: ObjectKey) -> Grant | None:
        """The grant of a pod that is not known to be written."""
        return self._assumed.get(key)

    def apply(self, change: Change) -> None:
        """Apply a change seen on the server."""
        match change:
            case Changed(object=thing):
                self._put(thing)
            case Removed(kind=kind, key=key):
                self._drop(kind, key)
            case Refused(kind="Device", key=key):
                self._describe(key.name, None)  # its former content is no longer valid
            case Refused(kind="Pod", key=key) if key in self._held:  # it frees no devices
                self._readable.setdefault(key, self._pods[key])
            case Replaced():
                self._replace(change)

    def beginning(self) -> Iterator[Recorded]:
        """For the beginning of a journal file: what happened that the objects of today do not say."""
        for name, device in self._gone.items():
            yield Changed("Device", device)
            yield Removed("Device", ObjectKey("", name))
        for pod in self._readable.values():
            yield Changed("Pod", pod)
        for grant in self._assumed.values():
            yield Changed("Pod", grant.pod)
            yield assumed_input(grant)

    def assume(self, grant: Grant) -> None:
        """Count devices as held before they are written."""
        self._assumed[grant.pod.key] = grant
        self._hold(grant.pod.key, grant.held)

    def forget(self, grant: Grant) -> None:
        """Drop a grant that was not and will not be written."""
        key = grant.pod.key
        if self._assumed.get(key) is grant:
            del self._assumed[key]
            self._hold(key, None)

    def _put(self, thing: object) -> None:
        match thing:
            case Pod():
                self._put_pod(thing)
            case Device():
                self._describe(thing.key.name, thing)
            case Node():
                self._label(thing.key.name, thing.metadata.labels)

    def _drop(self, kind: str, key: ObjectKey) -> None:
        match kind:
            case "Pod":
                self._forget_pod(key)
            case "Device":
                self._describe(key.name, None)
            case "Node":
                self._label(key.name, None)

    def _replace(self, listing: Replaced) -> None:
        listed = {thing.key for thing in listing.objects} | {refused.key for refused in listing.refused}
        gone = [key for key in self._known(listing.kind) if key not in listed]
        if listing.afresh and listing.kind == "Pod":
            # The server was restored from a backup: assumed grants were decided for a state that is gone.
            unreadable = {refused.key for refused in listing.refused}
            gone = [key for key in self._known("Pod") if key not in unreadable]
        for key in gone:
            self._drop(listing.kind, key)
        for thing in listing.objects:
            self._put(thing)
        for refused in listing.refused:
            self.apply(refused)

    def _known(self, kind: str) -> Iterator[ObjectKey]:
        match kind:
            case "Pod":
                yield from {**self._pods, **self._held}
            case "Device":
                yield from (ObjectKey("", name) for name in self._devices)
            case "Node":
                yield from (ObjectKey("", name) for name in self._labels)

    def _put_pod(self, pod: Pod) -> None:
        key = pod.key
        known = self._pods.get(key)
        if known is not None and known.metadata.uid != pod.metadata.uid:
            self._forget_pod(key)
        elif known is not None and older(pod, known):
            return
        annotated = ALLOCATED in pod.metadata.annotations
        demand = self.fleet.demands.of(pod) if pod.gated else None
        if demand is None:
            self._demands.pop(key, None)
        else:
            self._demands[key] = demand
        if demand is None and not annotated and key not in self._held and key not in self._assumed:
            self._pods.pop(key, None)
            return
        self._pods[key] = pod
        try:
            held = holder(pod)
            problem = "" if held or pod.finished or not annotated else "does not name the node of its devices"
            self._readable.pop(key, None)
            self._unreadable.pop(key, None)
        except Malformed as exc:
            problem = str(exc)
            held = None if key in self._unreadable else self._held.get(key)
            if held is None:
                held = self._hold_all(pod, problem)
            elif known is not None:
                self._readable.setdefault(key, known)
        self._log_problem("Pod", key, problem)
        if annotated or pod.finished:
            self._assumed.pop(key, None)
        if key not in self._assumed:  # the write may be in flight: ignore versions before it
            self._hold(key, held)

    def _hold_all(self, pod: Pod, why: str) -> Holder | None:
        """What a pod holds whose annotation was never readable: nobody knows which devices it uses."""
        held = holder_of_all(pod, self.fleet.machines.get(pinned(pod)))
        if held is not None:
            self._unreadable[pod.key] = pod
            if self._problems.get(("Pod", pod.key)) != why:
                self._report(AllocationUnreadable(pod.key, held.node, why))
        return held

    def _forget_pod(self, key: ObjectKey) -> None:
        self._pods.pop(key, None)
        self._unreadable.pop(key, None)
        self._readable.pop(key, None)
        self._demands.pop(key, None)
        self._assumed.pop(key, None)
        self._problems.pop(("Pod", key), None)
        self._hold(key, None)

    def _hold(self, key: ObjectKey, held: Holder | None) -> None:
        before = self._held.get(key)
        if held == before:
            return
        if before is not None:
            self.fleet.release(key)
            del self._held[key]
            self.room += 1
        if held is not None:
            self.fleet.hold(key, held.node, held.allocation, held.hints)
            self._held[key] = held
            self._audit(held)

    def _describe(self, name: str, device: Device | None) -> None:
        problem = ""
        if device is not None:
            if self._devices.get(name) is not None and self._devices[name].spec == device.spec:
                before = self._devices[name].metadata
                if (before.labels, before.annotations) == (
                    device.metadata.labels,
                    device.metadata.annotations,
                ):
                    return
            try:
                machine = self.fleet.put(device, self._labels.get(name, {}))
                problem = "; ".join(machine.notes)
                self._devices[name] = device
                self._gone.pop(name, None)
            except Malformed as exc:
                problem, device = str(exc), None
        if device is None:
            if name in self._devices:
                self._gone[name] = self._devices.pop(name)
            self.fleet.remove(name)
        for key, pod in self._unreadable.items():
            if pinned(pod) == name:
                self._hold(key, holder_of_all(pod, self.fleet.machines.get(name)))
        self._log_problem("Device", ObjectKey("", name), problem)
        self.room += 1

    def _label(self, name: str, labels: Mapping[str, str] | None) -> None:
        if self._labels.get(name) == labels:
            return
        if labels is None:
            self._labels.pop(name, None)
        else:
            self._labels[name] = labels
        if name in self._devices:
            self.fleet.put(self._devices[name], labels or {})
        self.room += 1

    def _log_problem(self, kind: str, key: ObjectKey, problem: str) -> None:
        """Log a problem once."""
        if problem and self._problems.get((kind, key)) != problem:
            import structlog  # noqa: PLC0415 - with asyncio 60 ms, which commands on files spare

            log = structlog.get_logger()
            log.warning("invalid Koordinator devices ignored", kind=kind, name=str(key), reason=problem)
        if problem:
            self._problems[kind, key] = problem
        else:
            self._problems.pop((kind, key), None)

    def _audit(self, held: Holder) -> None:
        machine = self.fleet.machines.get(held.node)
        if machine is None:
            return
        for device, pods in overdrawn(machine, self.fleet.holders(held.node), held.allocation):
            if self._unreadable.keys() & set(pods):
                continue  # it need not hold this one
            if self._reported.get(device) != pods:
                self._reported[device] = pods
                self._report(Overdrawn(device, pods))


def assumed_input(grant: Grant) -> PluginInput:
    """What a journal has of an assumed grant."""
    return PluginInput(PLUGIN, {"assume": [*grant.pod.key, grant.held.node, grant.text]})


class DeviceIntake:
    """The only place that changes machines and their holders. Nothing here awaits."""

    def __init__(self, state: KoordinatorState, intake: Intake) -> None:
        self._state = state
        self._intake = intake
        self._room = 0
        intake.follow(self._take)

    def _take(self, change: Change) -> None:
        had = self._state.has_machines
        self._state.apply(change)
        if had != self._state.has_machines or change.kind == "DeviceClass":  # who serves a name may change
            for key in self._state.asking:
                self._intake.put(Unit(Kind.POD, key))
        self._wake()

    def assume(self, grant: Grant) -> None:
        """Count devices as held, and room as taken, before they are written."""
        self._intake.note(assumed_input(grant))
        self._state.assume(grant)
        self._intake.assume_pod(grant.pod.key, grant.held.node)

    def forget(self, grant: Grant) -> None:
        """Drop a grant that was not and will not be written."""
        self._intake.note(PluginInput(PLUGIN, {"forget": [*grant.pod.key]}))
        self._state.forget(grant)
        if grant.pod.key not in self._state.fleet.pods:
            self._intake.forget_pod(grant.pod.key)
        self._wake()

    def _wake(self) -> None:
        """Wake the pods that may find new devices."""
        if self._room == self._state.room:
            return
        self._room = self._state.room
        self._intake.queue.wake(self._intake.waiting.served_by(self._state.fleet.may_serve))
