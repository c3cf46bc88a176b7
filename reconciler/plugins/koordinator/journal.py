"""Koordinator's part of a journal: Device objects and pods, and the decisions about them.

Its entries are wrapped, unlike those about claims: `{"t": "koordinator", "entry": ...}`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator

from reconciler.allocation.reasons.explanation import Explanation
from reconciler.api.objects.changes import Change, Changed, Removed, Replaced
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.control.decisions.declaration import Report
from reconciler.control.units import Kind, Unit
from reconciler.errors import Malformed
from reconciler.operations.journal.entries import Decided, Json, read_change, write_change
from reconciler.operations.journal.recording import Recorder
from reconciler.operations.journal.replaying import Again, ReplayPart
from reconciler.plugins.koordinator import annotations
from reconciler.plugins.koordinator.demand import Demand, Failure, read_demand
from reconciler.plugins.koordinator.explain import explain_pod
from reconciler.plugins.koordinator.fleet import Fleet
from reconciler.plugins.koordinator.handler import Journal
from reconciler.plugins.koordinator.holdings import Holder, recorded
from reconciler.plugins.koordinator.names import ALLOCATED
from reconciler.plugins.koordinator.objects import Device
from reconciler.plugins.koordinator.pods import Grant, KoordinatorState
from reconciler.plugins.koordinator.refusals import Refusal, Unserved, refusal
from reconciler.plugins.koordinator.rules import Rules, Semantics

KOORDINATOR = "koordinator"

Note = Callable[[Json], None]


class RecordedState(KoordinatorState):
    """A picture that tells a journal of every change that matters to it, in order."""

    def __init__(self, fleet: Fleet, report: Report, note: Note) -> None:
        super().__init__(fleet, report)
        self._note = note
        self._last: dict[str, Device] = {}
        """Last state of known machines without a readable Device object"""
        self._readable: dict[ObjectKey, Pod] = {}
        """Last readable version of pods that hold devices and whose newest version cannot be read"""

    def apply(self, change: Change) -> None:
        before = self._state(change)
        super().apply(change)
        pairs = zip(before, self._state(change), strict=True)
        if isinstance(change, Replaced) or any(old is not new for old, new in pairs):
            self._note(wrapped(write_change(self._shortened(change))))

    def observe(self, pod: Pod) -> None:
        super().observe(pod)
        if pod.key in self._pods:
            self._note(wrapped({"t": "observed", "object": pod.to_json()}))

    def assume(self, grant: Grant) -> None:
        super().assume(grant)
        self._note(wrapped(_assumed(grant)))

    def forget(self, grant: Grant) -> None:
        super().forget(grant)
        self._note(wrapped({"t": "forgotten", "pod": list(grant.pod.key)}))

    def whole(self) -> Iterator[Json]:
        """Entries that rebuild the state."""
        nodes = [
            Node.model_validate({"metadata": {"name": n, "labels": dict(of)}})
            for n, of in self._labels.items()
        ]
        yield wrapped(write_change(Replaced("Node", tuple(nodes), ())))
        for name, device in self._last.items():
            yield wrapped(write_change(Changed("Device", device)))
            yield wrapped(write_change(Removed("Device", ObjectKey("", name))))
        for kind, objects in (("Device", self._devices), ("Pod", self._readable), ("Pod", self._pods)):
            yield from (wrapped(write_change(Changed(kind, thing))) for thing in objects.values())
        yield from (wrapped(_assumed(grant)) for grant in self._assumed.values())

    def _put_pod(self, pod: Pod) -> None:
        before = self._pods.get(pod.key)
        super()._put_pod(pod)
        if ("Pod", pod.key) not in self._problems or pod.key not in self._held:
            self._readable.pop(pod.key, None)
        elif before is not None:
            self._readable.setdefault(pod.key, before)

    def _forget_pod(self, key: ObjectKey) -> None:
        super()._forget_pod(key)
        self._readable.pop(key, None)

    def _describe(self, name: str, device: Device | None) -> None:
        before = self._devices.get(name)
        super()._describe(name, device)
        if name in self._devices:
            self._last.pop(name, None)
        elif before is not None:
            self._last[name] = before

    def _state(self, change: Change) -> tuple[object, ...]:
        """The objects that a change may replace; the same objects before and after if it has no effect."""
        if isinstance(change, Replaced):
            return ()
        key = change.object.key if isinstance(change, Changed) else change.key
        match change.kind:
            case "Device":
                return (self._devices.get(key.name),)
            case "Node":
                return (self._labels.get(key.name),)
        return self._pods.get(key), self._held.get(key), self._assumed.get(key)

    def _shortened(self, change: Change) -> Change:
        """The change with only relevant data: labels of nodes, and pods that request these devices."""
        match change:
            case Changed(kind="Node", object=node):
                return Changed("Node", _labels(node))
            case Replaced(kind="Node", objects=nodes):
                return Replaced(
                    "Node", tuple([_labels(node) for node in nodes]), change.refused, change.afresh
                )
            case Replaced(kind="Pod", objects=pods):
                known = {*self._pods, *self._held}
                kept = tuple([pod for pod in pods if pod.key in known])
                return Replaced("Pod", kept, change.refused, change.afresh)
        return change


class Replay(ReplayPart):
    """Rebuilds the state and makes the decisions again."""

    def __init__(self, semantics: str) -> None:
        self.picture = KoordinatorState(Fleet(Rules(Semantics(semantics))), lambda _: None)

    def take(self, entry: Json) -> Again | None:
        picture = self.picture
        match entry["t"]:
            case "decided":
                then, pod = read_decision(entry), ObjectKey(*entry["pod"])
                now = self.again(then, pod)
                explanation = None if now is None or not now.reason else self.explained(pod, now.reason)
                return Again(then, now, None, (), explanation)
            case "observed":
                picture.observe(Pod.model_validate(entry["object"]))
            case "assumed":
                if (grant := _grant(entry, picture.fleet.rules)) is not None:
                    picture.assume(grant)
            case "forgotten":
                if (assumed := picture.assumed(ObjectKey(*entry["pod"]))) is not None:
                    picture.forget(assumed)
            case _:
                change = read_change(entry)
                if change is not None:
                    picture.apply(change)
        return None

    def again(self, then: Decided, pod: ObjectKey) -> Decided | None:
        """Make a decision again; None for an unknown pod."""
        demand, fleet = self.picture.demand(pod), self.picture.fleet
        if demand is None or isinstance(demand, Failure):
            return None
        names: Collection[str] = fleet.machines.keys() if then.nodes is None else frozenset(then.nodes)
        found = fleet.first(demand, names.__contains__)
        assert found is not None  # the number of tries is unlimited
        if isinstance(found, Unserved):
            why = refusal(found, "", crowded=False)
            return _decided(then.id, then.unit, then.nodes, why)
        held = Holder(found.node, found.allocation, demand.hints)
        text = fleet.text(found.node, found.allocation)
        return _decided(then.id, then.unit, then.nodes, Grant(_pod(self.picture, pod), demand, held, text))

    def explained(self, pod: ObjectKey, reason: str) -> Explanation | None:
        """The explanation of a refusal in the current state."""
        demand = self.picture.demand(pod)
        if demand is None:
            return None
        return explain_pod(_pod(self.picture, pod), demand, self.picture.fleet, reason)


def wrapped(entry: Json) -> Json:
    """An entry of this part of the journal."""
    return {"t": KOORDINATOR, "entry": entry}


def recorder_of_decisions(recorder: Recorder, fleet: Fleet) -> Journal:
    """Writes each decision about a pod to a journal."""

    def record(name: str, pod: Pod, suits: Callable[[str], bool], answer: Grant | Refusal) -> None:
        recorder.note_decision(write_decision(name, pod, fleet, suits, answer))

    return record


def write_decision(
    name: str, pod: Pod, fleet: Fleet, suits: Callable[[str], bool], answer: Grant | Refusal
) -> Json:
    """The entry of a decision about a pod. `suits` tells whether a machine is a candidate."""
    nodes = [node for node in fleet.machines if suits(node)]
    every = len(nodes) == len(fleet.machines)
    decided = _decided(name, str(Unit(Kind.POD, pod.key)), None if every else nodes, answer)
    return wrapped(
        {
            "t": "decided",
            "id": decided.id,
            "unit": decided.unit,
            "pod": list(pod.key),
            "nodes": None if decided.nodes is None else list(decided.nodes),
            "reason": decided.reason,
            "node": decided.node,
            "devices": [list(one) for one in decided.devices],
        }
    )


def read_decision(entry: Json) -> Decided:
    """The recorded decision."""
    return Decided(
        id=entry["id"],
        unit=entry["unit"],
        claims=(),
        nodes=None if entry["nodes"] is None else tuple(entry["nodes"]),
        behind=0,
        reason=entry["reason"],
        node=entry["node"],
        devices=tuple(tuple(one) for one in entry["devices"]),
    )


def _decided(name: str, unit: str, nodes: Iterable[str] | None, answer: Grant | Refusal) -> Decided:
    devices: tuple[tuple[str, ...], ...] = ()
    if isinstance(answer, Grant):
        reason, node, devices = "", answer.held.node, ((answer.text,),)
    else:
        reason, node = answer.reason, ""
    return Decided(
        id=name,
        unit=unit,
        claims=(),
        nodes=None if nodes is None else tuple(nodes),
        behind=0,
        reason=reason,
        node=node,
        devices=devices,
    )


def _assumed(grant: Grant) -> Json:
    return {"t": "assumed", "pod": grant.pod.to_json(), "node": grant.held.node, "text": grant.text}


def _grant(entry: Json, rules: Rules) -> Grant | None:
    pod = Pod.model_validate(entry["pod"])
    demand = read_demand(pod, rules)
    if not isinstance(demand, Demand):
        return None
    subject, text = f"Pod {pod.key}", entry["text"]
    try:
        allocation = recorded(subject, annotations.allocated(subject, {ALLOCATED: text}))
    except Malformed:
        return None
    return Grant(pod, demand, Holder(entry["node"], allocation, demand.hints), text)


def _pod(picture: KoordinatorState, key: ObjectKey) -> Pod:
    pod = picture.pod(key)
    assert pod is not None
    return pod


def _labels(node: object) -> Node:
    assert isinstance(node, Node)
    return Node.model_validate({"metadata": {"name": node.key.name, "labels": dict(node.metadata.labels)}})
