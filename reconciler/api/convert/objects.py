"""Converts all objects to the API of a release of Kubernetes."""

import copy
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from msgspec import Struct, field

from reconciler.api.convert.layout import Rename, valid_keys
from reconciler.api.convert.pools import KEPT_METADATA, Keys, NewPool, OldPool
from reconciler.api.objects.semantics import GATES, NEWEST_MINOR
from reconciler.api.objects.validating import subject_of
from reconciler.api.validation.kinds import GroupVersion, ServedKind
from reconciler.api.validation.served_kinds import every_kind
from reconciler.api.versions.extensions import COMPATIBLE_ONLY_WITH
from reconciler.api.versions.ignored import ignored, parts_of, used
from reconciler.api.versions.kinds import KINDS, NAMES, SINCE, Kind, dated_fields, off_in
from reconciler.api.versions.shapes import Raw, mapping, mappings
from reconciler.errors import Rejected

SEPARATE_COUNTERS = 35
"""The release since which counter sets and devices are in separate slices"""
OLD_SELECTORS = (33, 34)
"""Releases in which taint rules select by class and by expression"""

MOST_COUNTERS, MOST_DRAWN, MOST_TAINTS = 32, 1024, 4
"""Limits of a slice, and of a device, before 1.35"""

Object = dict[str, Any]


@cache
def _served() -> Mapping[tuple[str, str], ServedKind]:
    return {(kind.group, kind.kind): kind for kind in every_kind()}


class Target:
    """A release to write for."""

    def __init__(self, minor: int) -> None:
        self._minor = minor
        self._off: dict[str, str] = {}
        """Gate that is off there -> the first object that needs it"""

    def write(self, made: Sequence[Object]) -> tuple[list[Object], list[str]]:
        """Objects of one kind in today's shape as the release takes them, and why it cannot take them."""
        group, _, _ = made[0]["apiVersion"].rpartition("/")
        kind = KINDS[NAMES[group, made[0]["kind"]]]
        version = kind.version_of(self._minor)
        if version is None:
            return list(made), [f"Kubernetes 1.{self._minor} has no {kind.name}"]
        errors = [error for one in made for error in self._errors(kind, one)]
        if self._minor < SEPARATE_COUNTERS and kind.name == "ResourceSlice" and not errors:
            made, errors = _joined(made)
        written = [self._written(kind, version, one) for one in made]
        for one in made if not errors else ():
            for gate in off_in(kind.model, one, self._minor):
                self._off.setdefault(gate, f"{kind.name} {one['metadata']['name']}")
        return written, errors

    def notes(self) -> Iterator[str]:
        """A line for each gate that the release has off by default, and that some object needs."""
        for gate, name in sorted(self._off.items()):
            if not GATES[gate].needs_no_server:
                yield f"{name} needs the feature gate {gate}, which is off by default in 1.{self._minor}"

    def _errors(self, kind: Kind, one: Object) -> Iterator[str]:
        for path, since in dated_fields(kind.model, one):
            if since.minor > self._minor and not since.is_harmless:
                yield f"{path}: Kubernetes has it since 1.{since.minor}"
        spec = mapping(one.get("spec"))
        for device in mappings(spec.get("devices")) if self._minor < SEPARATE_COUNTERS else ():
            if len(mappings(device.get("taints"))) > MOST_TAINTS:
                yield f"device {device.get('name')}: before 1.35 at most {MOST_TAINTS} taints are allowed"
        selector = mapping(spec.get("deviceSelector"))
        for name in ("deviceClassName", "selectors"):
            if selector.get(name) and self._minor not in OLD_SELECTORS:
                why = "only 1.33 and 1.34 have it, and without it the rule matches more devices"
                yield f"spec.deviceSelector.{name}: {why}; name driver, pool or device instead"

    def _written(self, kind: Kind, version: str, one: Object) -> Object:
        if any(since.minor > self._minor for _, since in dated_fields(kind.model, one)):
            one = copy.deepcopy(one)
            for model, _, part in parts_of(kind.model, one):
                assert isinstance(part, dict)
                for name in [key for key, since in SINCE.get(model, {}).items() if since.minor > self._minor]:
                    part.pop(name, None)
        found = _served().get((kind.group, kind.name))
        shaped = found.downgrade(one, GroupVersion(kind.group, version)) if found is not None else one
        return {**shaped, "apiVersion": kind.api_version(version)}


def _joined(slices: Sequence[Object]) -> tuple[Sequence[Object], list[str]]:
    """The slices of a pool with the counter sets in the slices whose devices draw from them."""
    sets: dict[str, Raw] = {}
    for one in slices:
        sets |= {str(found.get("name")): found for found in mappings(one["spec"].get("sharedCounters"))}
    with_devices = [one for one in slices if one["spec"].get("devices")]
    if not sets or not with_devices:
        return slices, []
    drawn = [_drawn(one) for one in with_devices]
    drawn[0] |= sets.keys() - set().union(*drawn)  # those that no device draws from
    made: list[Object] = []
    errors = [
        f"devices draw from counter set {name}, which no slice of the pool has"
        for name in sorted(set().union(*drawn) - sets.keys())
    ]
    errors += [
        _over_limits(one, [found for name, found in sets.items() if name in own])
        for one, own in zip(with_devices, drawn, strict=True)
    ]
    for one, own in zip(with_devices, drawn, strict=True):
        pool = {**one["spec"]["pool"], "resourceSliceCount": len(with_devices)}
        shared = {"sharedCounters": [found for name, found in sets.items() if name in own]} if own else {}
        made.append({**one, "spec": {**one["spec"], "pool": pool, **shared}})
    if twice := [name for name in sets if sum(name in own for own in drawn) > 1]:
        errors.append(f"devices of several slices draw from {twice[0]}; Kubernetes allows it since 1.35")
    return made, list(filter(None, errors))


def _drawn(one: Object) -> set[str]:
    return {
        str(draw.get("counterSet"))
        for device in mappings(one["spec"]["devices"])
        for draw in mappings(device.get("consumesCounters"))
    }


def _over_limits(one: Object, sets: Sequence[Raw]) -> str:
    """Which limit of 1.33 and 1.34 a slice exceeds, where those were lower; empty for none."""
    devices = mappings(one["spec"]["devices"])
    draws = [draw for device in devices for draw in mappings(device.get("consumesCounters"))]
    counters = sum(len(mapping(found.get("counters"))) for found in sets)
    drawn = sum(len(mapping(draw.get("counters"))) for draw in draws)
    if counters > MOST_COUNTERS:
        return f"{counters} counters in one slice; before 1.35 at most {MOST_COUNTERS} are allowed"
    if drawn > MOST_DRAWN:
        return f"devices of one slice draw {drawn} counters; before 1.35 at most {MOST_DRAWN} are allowed"
    return ""


_INDEX = re.compile(r"\[\d+\]")
SPECS = ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass")
"""Kinds whose spec is written with known fields only"""


def known_fields(kind: str, spec: Raw) -> tuple[Object, list[str]]:
    """A spec without nulls and fields that its model lacks, and the paths of those, each once."""
    made, unknown = copy.deepcopy(dict(spec)), dict[str, None]()
    for model, path, part in parts_of(used(KINDS[kind].model)["spec"], made, "spec"):
        assert isinstance(part, dict)
        lacking = part.keys() - used(model).keys() - ignored(model)
        unknown |= dict.fromkeys(f"{_INDEX.sub('', path)}.{key}" for key in part if key in lacking)
        for key in [key for key, value in part.items() if key in lacking or value is None]:
            del part[key]
    return made, list(unknown)


Check = Callable[[dict[str, Any]], Sequence[str]]
"""Errors of a server for an object"""

CORE_KINDS = ("Node", "Pod")
"""Kinds of the core API, which stay unchanged"""

STATUS = ("allocation", "reservedFor")
ALLOCATION = ("devices", "nodeSelector", "allocationTimestamp")
"""The fields of a claim's status that define its allocation; drivers report the others again"""


class Converted(Struct, frozen=True):
    """The objects to write, and the changes."""

    objects: tuple[dict[str, Any], ...]
    renames: tuple[Rename, ...]
    notes: tuple[str, ...]
    """Changes without effect on allocations"""
    problems: tuple[str, ...]
    """Objects and devices that cannot be converted and are dropped"""
    sources: tuple[int, ...]
    """Index in the input of the object that each object comes from; for a pool, of its first slice"""


class _Pools(Struct):
    """The converted pools."""

    slices: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    """Index of a pool's first slice in the input -> its new slices"""
    renames: list[Rename] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    devices: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    """(driver, pool) -> device -> its new name"""


def converted(
    raws: Sequence[Raw], check: Check, *, release: int = NEWEST_MINOR, order_by_size: bool = False
) -> Converted:
    """Convert objects in the shape of today, in their order, to a minor release of Kubernetes 1.

    `order_by_size`: smaller devices of a pool come first (CTR-12), so claims may get other devices.
    """
    target = Target(release)
    keys, renames = _keys([raw for raw in raws if raw["kind"] == "ResourceSlice"])
    pools = _converted_pools(raws, keys, check, order_by_size=order_by_size, target=target)
    objects: list[dict[str, Any]] = []
    sources: list[int] = []
    notes, problems = pools.notes, pools.problems
    # In an expression the domain is separate; only the name after it changes.
    renamed = {one.before.rpartition("/")[2]: one.after.rpartition("/")[2] for one in renames}
    for at, raw in enumerate(raws):
        if raw["kind"] == "ResourceSlice":
            objects += pools.slices.get(at, [])
            sources += [at] * len(pools.slices.get(at, []))
            expressions = [
                device.get(COMPATIBLE_ONLY_WITH) for device in mappings(raw["spec"].get("devices"))
            ]
            notes += _old_names_in(raw, [one for one in expressions if one is not None], renamed)
            continue
        made, more_notes = _other(raw, pools.devices, renamed)
        (written,), errors = target.write([made])
        errors = errors or list(check(written) if raw["kind"] not in CORE_KINDS else ())
        notes += more_notes
        problems += [f"{subject_of(raw)} cannot be converted: {line}" for line in errors[:1]]
        if not errors:
            objects.append(written)
            sources.append(at)
    return Converted(
        tuple(objects),
        (*renames, *pools.renames),
        (*notes, *target.notes()),
        tuple(problems),
        tuple(sources),
    )


def _keys(slices: Iterable[Raw]) -> tuple[Mapping[str, Keys], list[Rename]]:
    """Driver -> names of attributes and capacities, the same in all its pools."""
    devices: dict[str, list[Raw]] = {}
    for raw in slices:
        devices.setdefault(raw["spec"]["driver"], []).extend(mappings(raw["spec"].get("devices")))
    keys: dict[str, Keys] = {}
    renames: list[Rename] = []
    for driver, of_driver in devices.items():
        named = {
            kind: valid_keys(key for device in of_driver for key in mapping(device.get(kind)))
            for kind in ("attributes", "capacity")
        }
        keys[driver] = Keys(named["attributes"], named["capacity"])
        for kind, names in named.items():
            word = kind.removesuffix("s")
            renames += [Rename(word, driver, old, new) for old, new in names.items() if old != new]
    return keys, renames


def _converted_pools(
    raws: Sequence[Raw], keys: Mapping[str, Keys], check: Check, *, order_by_size: bool, target: Target
) -> _Pools:
    groups: dict[tuple[str, str, int], list[int]] = {}
    for at, raw in enumerate(raws):
        if raw["kind"] == "ResourceSlice":
            spec = raw["spec"]
            groups.setdefault(
                (spec["driver"], spec["pool"]["name"], spec["pool"].get("generation") or 0), []
            ).append(at)
    result = _Pools()
    own = {at: str(raws[at]["metadata"]["name"]) for members in groups.values() for at in members}
    taken = set(own.values())
    for (driver, pool, _), members in groups.items():
        ordered = sorted(members, key=lambda at: own[at].encode())
        old = OldPool([raws[at] for at in ordered], keys[driver])
        new = _checked(old, taken, check, result, order_by_size=order_by_size)
        if new is not None:
            slices, errors = target.write(new.slices)
            if errors:
                result.problems.append(f"pool {old.name} cannot be converted: {errors[0]}")
                continue
            taken |= {made["metadata"]["name"] for made in new.slices}
            result.slices[members[0]] = slices
            result.renames += new.renames
            result.notes += new.notes
            result.problems += new.problems
            result.devices.setdefault((driver, pool), {}).update(new.devices)
    return result


def _checked(
    pool: OldPool, taken: set[str], check: Check, result: _Pools, *, order_by_size: bool
) -> NewPool | None:
    """The new pool if a server accepts all its slices: an incomplete pool would have no usable device."""
    try:
        new = pool.converted(taken, order_by_size=order_by_size)
    except Rejected as exc:
        result.problems.append(f"{exc}; the pool is dropped")
        return None
    errors = [f"{subject_of(made)}: {line}" for made in new.slices for line in check(made)]
    if errors:
        result.problems.append(f"pool {pool.name} cannot be converted: {errors[0]}")
        return None
    return new


def _other(
    raw: Raw, devices: Mapping[tuple[str, str], Mapping[str, str]], keys: Mapping[str, str]
) -> tuple[dict[str, Any], list[str]]:
    """An object other than a slice, without fields of servers and older versions."""
    made = dict(raw)
    notes: list[str] = []
    made["metadata"] = {key: raw["metadata"][key] for key in KEPT_METADATA if raw["metadata"].get(key)}
    if raw["kind"] in SPECS:
        made["spec"], unknown = known_fields(raw["kind"], mapping(raw.get("spec")))
        notes += [f"{subject_of(raw)}: Kubernetes has no field {path}; it is dropped" for path in unknown]
    if raw["kind"] in CORE_KINDS:
        return made, notes
    if raw["kind"] == "DeviceTaintRule":
        return _taint_rule(made, devices), notes
    notes += _old_names_in(raw, mapping(made.get("spec")), keys)
    return _claim(made, devices) if raw["kind"] == "ResourceClaim" else made, notes


def _old_names_in(raw: Raw, part: Any, keys: Mapping[str, str]) -> Iterator[str]:
    """A note for each renamed attribute and capacity in a part of an object."""
    text = json.dumps(part, ensure_ascii=False) if part else ""
    for old, new in keys.items():
        # Quotes and dots end a key in CEL, a slash or a quote in JSON.
        if old in text and re.search(rf"(?<![\w-]){re.escape(old)}(?![\w-])", text):
            yield f"{subject_of(raw)} names {old}, which is now {new}"


def _taint_rule(made: dict[str, Any], devices: Mapping[tuple[str, str], Mapping[str, str]]) -> dict[str, Any]:
    selector = mapping(mapping(made.get("spec")).get("deviceSelector"))
    name = selector.get("device")
    new = devices.get((selector.get("driver", ""), selector.get("pool", "")), {}).get(name or "", name)
    if new != name:
        made["spec"] = {**made["spec"], "deviceSelector": {**selector, "device": new}}
    return made


def _claim(made: dict[str, Any], devices: Mapping[tuple[str, str], Mapping[str, str]]) -> dict[str, Any]:
    """A claim; its allocation has the new names of its devices."""
    status = {
        key: value for key, value in mapping(made.pop("status", None)).items() if key in STATUS and value
    }
    if "allocation" in status:
        allocation = {key: value for key, value in status["allocation"].items() if key in ALLOCATION}
        held = mapping(allocation.get("devices"))
        if held.get("results"):
            results = [
                {
                    **one,
                    "device": devices.get((one["driver"], one["pool"]), {}).get(one["device"], one["device"]),
                }
                for one in held["results"]
            ]
            allocation["devices"] = {**held, "results": results}
        status["allocation"] = allocation
    return {**made, "status": status} if status else made
