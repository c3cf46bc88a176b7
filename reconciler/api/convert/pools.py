"""Converts the slices of one generation of a pool."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from reconciler.api.convert import layout
from reconciler.api.objects.model import aliases_of
from reconciler.api.objects.slices import Device, ResourceSliceSpec
from reconciler.api.versions.extensions import ANNOTATION, with_annotation
from reconciler.api.versions.kinds import KINDS
from reconciler.api.versions.shapes import Raw, mapping, mappings
from reconciler.errors import Rejected

API_VERSION = KINDS["ResourceSlice"].in_shape[0]

TARGETS = ("perDeviceNodeSelection", "nodeName", "allNodes", "nodeSelector")
"""The first field that is set counts"""

KEPT_METADATA = ("name", "namespace", "labels", "annotations", "finalizers", "ownerReferences")
"""Metadata of a manifest; a server adds the other fields"""

DEVICE_FIELDS = aliases_of(Device)
"""Those of the newest release, and the field that moves to an annotation"""

KEPT_FIELDS = ("skipNodeOperations", "partitionTypeAttribute")
"""Fields of a slice that stay as they are"""
SPEC_FIELDS = {*aliases_of(ResourceSliceSpec), *KEPT_FIELDS}


class Keys(Struct, frozen=True):
    """Old name -> new name of the attributes and capacities of one driver."""

    attributes: Mapping[str, str]
    capacity: Mapping[str, str]


class NewPool(Struct, frozen=True):
    """The new slices of a pool, and the changes."""

    slices: tuple[dict[str, Any], ...]
    renames: tuple[layout.Rename, ...]
    devices: Mapping[str, str]
    """Device -> its new name"""
    notes: tuple[str, ...]
    problems: tuple[str, ...]


class OldPool:
    """All slices of one generation, sorted by name, in the shape of `legacy.reading`."""

    def __init__(self, slices: Sequence[Raw], keys: Keys) -> None:
        self.slices = slices
        self._keys = keys
        self.driver = str(slices[0]["spec"]["driver"])
        self.name = f"{self.driver}/{slices[0]['spec']['pool']['name']}"
        self.devices = {at: mappings(raw["spec"].get("devices")) for at, raw in enumerate(slices)}
        self.sets = [
            layout.CounterSet(at, str(counters["name"]), _values(counters.get("counters")))
            for at, raw in enumerate(slices)
            for counters in mappings(raw["spec"].get("sharedCounters"))
        ]

    def converted(self, taken: set[str], *, order_by_size: bool = False) -> NewPool:
        """The new slices; `taken` holds the names of all slices. Raises Rejected for an invalid pool.

        `order_by_size`: smaller devices come first (SCC-3).
        """
        self._check()
        everything = [device for devices in self.devices.values() for device in devices]
        wanted = self.slices[0]["spec"]["pool"].get("resourceSliceCount")
        sets = layout.fit_counter_sets(self.sets, everything, complete=wanted == len(self.slices))
        ordered: Mapping[int, Sequence[Raw]] = self.devices
        if order_by_size:
            ordered = layout.smallest_first(self.devices, self._targets(), sets)
        expressed = [device for device in everything if device["name"] not in sets.lost]
        devices = layout.valid_labels(device["name"] for device in expressed)
        set_names = layout.valid_labels(one.name for one in sets.sets)
        counters = {one.name: layout.valid_labels(one.counters) for one in sets.sets}
        rename = _Renaming(self._keys, devices, set_names, counters)
        found = layout.parts(
            {
                at: [rename.device(d, sets.draws[d["name"]]) for d in of_slice if d["name"] not in sets.lost]
                for at, of_slice in ordered.items()
            },
            [rename.counter_set(one) for one in sets.sets],
        )
        originals = [str(raw["metadata"]["name"]) for raw in self.slices]
        scheme = layout.names(found, originals, taken)
        more = len(found) - len(self.slices)
        return NewPool(
            tuple(self._slice(part, name, more) for part, name in zip(found, scheme, strict=True)),
            (*self._renames(rename), *_slice_renames(found, originals, scheme)),
            devices,
            (*self._moved(ordered), *_layout_notes(found, originals, scheme), *self._unknown()),
            tuple(
                f"device {self.name}/{device} cannot be converted: {why}" for device, why in sets.lost.items()
            ),
        )

    def _targets(self) -> dict[int, str]:
        """The nodes of each slice, as text."""
        specs = {at: raw["spec"] for at, raw in enumerate(self.slices)}
        given = {at: next(target for target in TARGETS if spec.get(target)) for at, spec in specs.items()}
        return {at: json.dumps([key, specs[at][key]], sort_keys=True) for at, key in given.items()}

    def _moved(self, ordered: Mapping[int, Sequence[Raw]]) -> Iterator[str]:
        """A note if the devices have another order."""
        before, after = (
            [device["name"] for devices in one.values() for device in devices]
            for one in (self.devices, ordered)
        )
        if before != after:
            yield f"pool {self.name}: smaller devices come first now"

    def _check(self) -> None:
        for kind, found in (
            ("devices", [str(d["name"]) for devices in self.devices.values() for d in devices]),
            ("counter sets", [one.name for one in self.sets]),
        ):
            twice = [name for name, count in Counter(found).items() if count > 1]
            if twice:
                raise Rejected(f"pool {self.name}: two {kind} are named {twice[0]}")
        for raw in self.slices:
            if not any(raw["spec"].get(target) for target in TARGETS):
                name = raw["metadata"]["name"]
                raise Rejected(f"pool {self.name}: slice {name} has no node selection; {self._missing(raw)}")

    def _missing(self, raw: Raw) -> str:
        """What to do about a slice that says nothing of nodes."""
        others = [
            f"{target}: {json.dumps(one['spec'][target])}"
            for one in self.slices
            for target in TARGETS
            if one["spec"].get(target)
        ]
        if raw["spec"].get("devices") or not raw["spec"].get("sharedCounters"):
            return "set spec.nodeName"
        where = f", such as {others[0]}" if others else ""
        return (
            "slices of counters need one, too, which documents leave out: give it that of the pool's slices "
            f"with devices{where}"
        )

    def _slice(self, part: layout.Part, name: str, more: int) -> dict[str, Any]:
        raw = self.slices[part.slice]
        spec = raw["spec"]
        target = next(target for target in TARGETS if spec.get(target))
        pool = {**spec["pool"], "resourceSliceCount": spec["pool"]["resourceSliceCount"] + more}
        pool["generation"] = pool.get("generation") or 0
        made: dict[str, Any] = {"driver": spec["driver"], "pool": pool, target: spec[target]}
        made |= {key: spec[key] for key in KEPT_FIELDS if spec.get(key) and part.devices}
        if part.sets:
            made["sharedCounters"] = [
                {
                    "name": one.name,
                    "counters": {key: {"value": amount} for key, amount in one.counters.items()},
                }
                for one in part.sets
            ]
        if part.devices:
            made["devices"] = list(part.devices)
        metadata = {key: raw["metadata"][key] for key in KEPT_METADATA if raw["metadata"].get(key)}
        annotations = {
            key: value
            for key, value in mapping(metadata.pop("annotations", None)).items()
            if key != ANNOTATION
        }
        metadata |= {"name": name, **({"annotations": annotations} if annotations else {})}
        written = {"apiVersion": API_VERSION, "kind": "ResourceSlice", "metadata": metadata, "spec": made}
        found = dict(with_annotation(written))
        if part.devices:  # groups stay where they are, too: a server may have the field
            devices = zip(found["spec"]["devices"], part.devices, strict=True)
            groups = [{**now, **_draws_of(before)} for now, before in devices]
            found["spec"] = {**found["spec"], "devices": groups}
        return found

    def _renames(self, rename: "_Renaming") -> Iterator[layout.Rename]:
        of_sets = [
            ("counter", f"{self.name}, counter set {rename.sets[name]}", counters)
            for name, counters in rename.counters.items()
        ]
        of_pool = ("device", self.name, rename.devices), ("counter set", self.name, rename.sets)
        for kind, where, names_of in (*of_pool, *of_sets):
            for before, after in names_of.items():
                if before != after:
                    yield layout.Rename(kind, where, before, after)

    def _unknown(self) -> Iterator[str]:
        """Fields that every server would drop."""
        found: dict[str, None] = {}
        for raw in self.slices:
            found |= dict.fromkeys(f"spec.{key}" for key in raw["spec"] if key not in SPEC_FIELDS)
            for device in mappings(raw["spec"].get("devices")):
                found |= dict.fromkeys(f"spec.devices[].{key}" for key in device if key not in DEVICE_FIELDS)
        yield from (f"pool {self.name}: Kubernetes has no field {field}; it is dropped" for field in found)


class _Renaming(Struct, frozen=True):
    """Old name -> new name of all parts of a pool."""

    keys: Keys
    devices: Mapping[str, str]
    sets: Mapping[str, str]
    counters: Mapping[str, Mapping[str, str]]
    """Old name of the set -> old counter -> new counter"""

    def counter_set(self, one: layout.CounterSet) -> layout.CounterSet:
        """The set with new names."""
        counters = {self.counters[one.name][key]: str(amount) for key, amount in one.counters.items()}
        return layout.CounterSet(one.slice, self.sets[one.name], counters)

    def device(self, device: Raw, draws: Sequence[Raw]) -> dict[str, Any]:
        """The device with new names and its draws."""
        made = {key: device[key] for key in DEVICE_FIELDS if device.get(key) is not None}
        made["name"] = self.devices[device["name"]]
        if device.get("attributes"):
            made["attributes"] = {self.keys.attributes[key]: v for key, v in device["attributes"].items()}
        if device.get("capacity"):
            made["capacity"] = {
                self.keys.capacity[key]: {**mapping(amount), "value": layout.amount_of(amount)}
                for key, amount in device["capacity"].items()
            }
        drawn = [self._draw(draw) for draw in draws if draw.get("counters")]
        made.pop("consumesCounters", None)
        return {**made, "consumesCounters": drawn} if drawn else made

    def _draw(self, draw: Raw) -> dict[str, Any]:
        counters = self.counters.get(draw["counterSet"], {})
        return {
            **draw,
            "counterSet": self.sets.get(draw["counterSet"], draw["counterSet"]),
            "counters": {
                counters.get(key, key): (
                    amount if "valueFrom" in mapping(amount) else {"value": layout.amount_of(amount)}
                )
                for key, amount in mapping(draw["counters"]).items()
            },
        }


def _draws_of(device: Raw) -> Raw:
    draws = [
        {key: value for key, value in draw.items() if value is not None}
        for draw in mappings(device.get("consumesCounters"))
    ]
    return {"consumesCounters": draws} if draws else {}


def _values(counters: Any) -> dict[str, str]:
    return {key: layout.amount_of(amount) for key, amount in mapping(counters).items()}


def _slice_renames(
    found: Sequence[layout.Part], originals: Sequence[str], scheme: Sequence[str]
) -> Iterator[layout.Rename]:
    """Slices whose name is not used any more."""
    for at, original in enumerate(originals):
        first = next((name for part, name in zip(found, scheme, strict=True) if part.slice == at), None)
        if original not in scheme and first is not None:
            yield layout.Rename("slice", "the cluster", original, first)


def _layout_notes(
    found: Sequence[layout.Part], originals: Sequence[str], scheme: Sequence[str]
) -> Iterator[str]:
    for at, original in enumerate(originals):
        made = [name for part, name in zip(found, scheme, strict=True) if part.slice == at]
        if len(made) > 1:
            yield f"slice {original} is split into {', '.join(made)}"
