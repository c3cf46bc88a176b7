"""Converts inputs and decisions to JSON and back. One object per line; `t` is its type."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict

from reconciler.api.objects.changes import Change, Changed, Refused, Removed, Replaced
from reconciler.api.objects.claims import Allocation
from reconciler.api.objects.meta import ApiObject, DeviceID, ObjectKey
from reconciler.api.objects.plan import Granted, Plan
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.kinds import KINDS
from reconciler.control.decider import Refusal
from reconciler.control.decisions.every import MovesPlanned, RoomPlanned
from reconciler.control.ownership import Ownership
from reconciler.errors import Rejected
from reconciler.ha.shard import parse_shard
from reconciler.state.devices.retained_draws import Drawn
from reconciler.state.nominations import (
    HeldPlace,
    Nomination,
    Nominee,
    as_json,
    nominee_as_json,
    nominee_of,
    place_as_json,
    place_of,
)

FORMAT = 1
"""Increased when a release can no longer read the format of an earlier one"""

RECORDED_SETTINGS = ("mode", "pause", "feature_gates", "koordinator", "koordinator_semantics")
"""Settings that the header has with their values"""

NOMINATED, NOMINATION_ENDED = "nominated", "nomination ended"
"""Entries about room that is held for something"""

ROOM_PLAN, MOVES_PLAN = "room plan", "moves plan"
"""An entry about pods that are, or would be, evicted"""

BEGUN = "begun"
"""The entry after the initial snapshot of a file; events follow it. `inputs` counts the earlier inputs"""

Json = dict[str, Any]


class Header(Struct, frozen=True):
    """The configuration of the decisions in a file."""

    program: str
    rules: Semantics
    ours: Ownership
    steps: int
    run: str = ""
    """Id of the process; files of one run continue each other"""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Values of the settings in `RECORDED_SETTINGS`, for information"""

    def to_json(self) -> Json:
        """The first line of a file."""
        return {
            "t": "header",
            "format": FORMAT,
            "program": self.program,
            "release": self.rules.release,
            "gates": sorted(self.rules.gates),
            "groupModes": sorted(map(list, self.rules.group_modes)),
            "exclusionScopes": sorted(map(list, self.rules.exclusion_scopes)),
            "allClaims": self.ours.all_claims,
            "drivers": sorted(self.ours.drivers),
            "classes": sorted(self.ours.classes),
            "alone": self.ours.alone,
            "shard": str(self.ours.shard),
            "steps": self.steps,
            "run": self.run,
            "settings": dict(self.settings),
        }


NodeSets = tuple[tuple[str, ...], ...]
"""For each claim of a decision, names of nodes"""


class PolicyUse(Struct, frozen=True):
    """The placement policies of a decision."""

    name: str
    """Of the policy that ordered nodes and devices; empty for first fit, and for a refusal"""
    seed: int
    demand: str
    """Digest of the demand; empty without one"""
    cores: int | None = None
    """Thousandths of a CPU that the pod needs; None if no policy looks at it"""


class Decided(Struct, frozen=True):
    """A question and its answer."""

    id: str
    unit: str
    claims: tuple[ObjectKey, ...]
    nodes: tuple[str, ...] | None
    """None for all nodes"""
    behind: int
    """Inputs between the snapshot of the decision and this entry; -1 if unknown"""
    reason: str
    """Reason of a refusal; empty if devices were allocated"""
    node: str
    devices: tuple[tuple[str, ...], ...]
    """For each claim its `request=DRIVER/POOL/DEVICE` in order"""
    together: tuple[NodeSets, ...] | None = None
    """Sets of nodes on which the pods that share the claims did not fit; None if no pods share them"""
    policy: PolicyUse | None = None
    """None if first fit decides all claims"""
    own: tuple[Nominee, ...] = ()
    """For whom was decided, if room was held for anything: what was held for others could not be used"""
    expected: HeldPlace | None = None
    """What was held for the pod because it replaces another"""
    preferences: Json | None = None
    """What the pod preferred, as `write_preferences` writes it; None if nothing counted"""


def read_header(raw: Mapping[str, Any]) -> Header:
    """Raises Rejected for a journal of another format."""
    if raw.get("t") != "header" or raw.get("format") != FORMAT:
        raise Rejected(f"not a journal of format {FORMAT}: it starts with {str(raw)[:80]}")
    modes = frozenset((driver, mode) for driver, mode in raw["groupModes"])
    scopes = frozenset((driver, scope) for driver, scope in raw.get("exclusionScopes", ()))
    rules = Semantics(raw["release"], frozenset(raw["gates"]), modes, scopes)
    ours = Ownership(
        all_claims=raw["allClaims"],
        drivers=frozenset(raw["drivers"]),
        classes=frozenset(raw["classes"]),
        alone=raw["alone"],
        shard=parse_shard(raw.get("shard", "")),
    )
    run, settings = raw.get("run", ""), raw.get("settings", {})
    return Header(raw["program"], rules, ours, raw["steps"], run, settings)


def write_change(change: Change) -> Json:
    """The entry of a change."""
    match change:
        case Changed(kind=kind, object=thing):
            return {"t": "changed", "kind": kind, "object": thing.to_json()}
        case Removed(kind=kind, key=key, stating=stating):
            return {"t": "removed", "kind": kind, "key": list(key), "stating": stating}
        case Refused(kind=kind, key=key, reason=reason):
            return {"t": "refused", "kind": kind, "key": list(key), "reason": reason}
        case Replaced(kind=kind, objects=objects, refused=refused, afresh=afresh, stating=slices):
            return {
                "t": "replaced",
                "kind": kind,
                "objects": [thing.to_json() for thing in objects],
                "refused": [[list(one.key), one.reason] for one in refused],
                "afresh": afresh,
                "stating": [list(one) for one in slices],
            }


def read_change(raw: Mapping[str, Any]) -> Change | None:
    """The change of an entry; None for other entries."""
    kind = raw.get("kind", "")
    match raw["t"]:
        case "changed":
            return Changed(kind, _object(kind, raw["object"]))
        case "removed":
            return Removed(kind, ObjectKey(*raw["key"]), raw.get("stating", ""))
        case "refused":
            return Refused(kind, ObjectKey(*raw["key"]), raw["reason"])
        case "replaced":
            refused = tuple(Refused(kind, ObjectKey(*key), reason) for key, reason in raw["refused"])
            objects = tuple(_object(kind, thing) for thing in raw["objects"])
            slices = tuple((name, driver) for name, driver in raw.get("stating", ()))
            return Replaced(kind, objects, refused, raw["afresh"], slices)
    return None


def _object(kind: str, raw: Mapping[str, Any]) -> ApiObject:
    return KINDS[kind].model.model_validate(raw)


def write_retained_draw(device: DeviceID, drawn: Drawn) -> Json:
    """The entry with the consumption of a held device from before its slices changed."""
    return {
        "t": "remembered",
        "device": list(device),
        "drawn": {name: dict(of) for name, of in drawn.items()},
    }


def read_retained_draw(raw: Mapping[str, Any]) -> tuple[DeviceID, Drawn]:
    """The device of an entry and its consumption."""
    return DeviceID(*raw["device"]), raw["drawn"]


def write_plan(kind: str, plan: Plan) -> Json:
    """The entry of a plan; `kind` is `assumed` or `forgotten`."""
    return {
        "t": kind,
        "claim": list(plan.claim),
        "uid": plan.uid,
        "version": plan.resource_version,
        "node": plan.node,
        "allocation": plan.allocation.to_json(),
        "annotations": [list(pair) for pair in plan.annotations],
    }


def read_plan(raw: Mapping[str, Any]) -> Plan:
    """The plan of an entry."""
    return Plan(
        claim=ObjectKey(*raw["claim"]),
        uid=raw["uid"],
        resource_version=raw["version"],
        node=raw["node"],
        allocation=Allocation.model_validate(raw["allocation"]),
        annotations=tuple((name, value) for name, value in raw["annotations"]),
    )


def write_nomination(nomination: Nomination) -> Json:
    """The entry of a nomination. The deadline by the clock of the process is left out."""
    return {"t": NOMINATED, **as_json(nomination)}


def write_nomination_end(nominee: Nominee) -> Json:
    """The entry of the end of a nomination."""
    return {"t": NOMINATION_ENDED, "nominee": nominee_as_json(nominee)}


def write_room_plan(plan: RoomPlanned) -> Json:
    """The entry of a plan to evict pods."""
    return {
        "t": ROOM_PLAN,
        "nominee": nominee_as_json(plan.nominee),
        "victims": [list(key) for key in plan.victims],
        "nodes": list(plan.nodes),
        "devices": [list(device) for device in plan.devices],
        "acts": plan.acts,
        "why": plan.why,
    }


def write_moves_plan(plan: MovesPlanned) -> Json:
    """The entry of a plan to move pods."""
    return {
        "t": MOVES_PLAN,
        "goal": plan.goal,
        "before": plan.before,
        "after": plan.after,
        "pods": [list(key) for key in plan.pods],
        "nodes": list(plan.nodes),
        "acts": plan.acts,
        "why": plan.why,
    }


def answered(
    name: str,
    unit: str,
    claims: Iterable[ObjectKey],
    nodes: Iterable[str] | None,
    answer: Granted | Refusal,
    *,
    behind: int = 0,
) -> Decided:
    """An answer in the form that is recorded and compared. Share ids are omitted: they are random."""
    granted = isinstance(answer, Granted)
    return Decided(
        id=name,
        unit=unit,
        claims=tuple(claims),
        nodes=None if nodes is None else tuple(nodes),
        behind=behind,
        reason="" if isinstance(answer, Granted) else answer.reason,
        node=answer.node if isinstance(answer, Granted) else "",
        devices=tuple(_devices(plan) for plan in answer.plans) if granted else (),  # type: ignore[union-attr]
    )


def _devices(plan: Plan) -> tuple[str, ...]:
    return tuple(f"{result.request}={result.id}" for result in plan.allocation.devices.results)


def write_decided(decided: Decided) -> Json:
    """A decision."""
    used: Json = {} if decided.policy is None else {"policy": asdict(decided.policy)}
    if decided.own:
        used["own"] = [nominee_as_json(one) for one in decided.own]
    if decided.expected is not None:
        used["expected"] = place_as_json(decided.expected)
    if decided.preferences is not None:
        used["preferences"] = decided.preferences
    return {
        "t": "decided",
        "id": decided.id,
        "unit": decided.unit,
        "claims": [list(key) for key in decided.claims],
        "nodes": None if decided.nodes is None else list(decided.nodes),
        "behind": decided.behind,
        "reason": decided.reason,
        "node": decided.node,
        "devices": [list(one) for one in decided.devices],
        "together": None
        if decided.together is None
        else [[list(names) for names in sets] for sets in decided.together],
        **used,
    }


def read_decided(raw: Mapping[str, Any]) -> Decided:
    """The decision of an entry."""
    return Decided(
        id=raw["id"],
        unit=raw["unit"],
        claims=tuple(ObjectKey(*key) for key in raw["claims"]),
        nodes=None if raw["nodes"] is None else tuple(raw["nodes"]),
        behind=raw["behind"],
        reason=raw["reason"],
        node=raw["node"],
        devices=tuple(tuple(one) for one in raw["devices"]),
        together=_node_sets(raw.get("together")),
        policy=PolicyUse(**raw["policy"]) if "policy" in raw else None,
        own=own_of_entry(raw),
        expected=place_of(raw["expected"]) if "expected" in raw else None,
        preferences=raw.get("preferences"),
    )


def own_of_entry(raw: Mapping[str, Any]) -> tuple[Nominee, ...]:
    """For whom the decision of an entry was made, if room was held for anything."""
    return tuple(map(nominee_of, raw.get("own", ())))


def _node_sets(raw: list[list[list[str]]] | None) -> tuple[NodeSets, ...] | None:
    return None if raw is None else tuple(tuple(tuple(names) for names in sets) for sets in raw)
