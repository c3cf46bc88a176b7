"""How a kind is served: names, versions and their conversions, strategic merges, rules for writes.

Served versions are converted to the stored one and back (VER-1 to VER-5, and the two shapes of an event);
inputs are never modified, and unchanged parts are shared. In a strategic merge patch, lists of named
entries are merged by name instead of being replaced. A schema maps a field to Merge or to the schema of a
plain object. Other fields merge as in a JSON merge patch.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from msgspec import Struct, field

from reconciler.api.objects.claims import INLINE
from reconciler.api.validation.bodies import bad_request
from reconciler.api.validation.fields import Cause, Field
from reconciler.api.versions.shapes import Change, Json, each, inside

Schema = Mapping[str, Any]


class Merge(Struct, frozen=True):
    """A list that is merged by the value of `key`, or as a set of plain values if `key` is empty."""

    key: str = ""
    of: Schema = field(default_factory=dict)
    """The schema of the elements."""


METADATA: Schema = {"ownerReferences": Merge("uid"), "finalizers": Merge()}
CONDITIONS = Merge("type")


def strategic_merge(target: Any, patch: Any, schema: Schema) -> Any:
    """`target` with the patch applied; neither is modified."""
    if not isinstance(patch, dict):
        return patch
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    result = dict(target) if isinstance(target, dict) else {}
    if isinstance(keep := patch.get("$retainKeys"), list):
        result = {key: value for key, value in result.items() if key in keep}
    for key, value in patch.items():
        if key.startswith("$"):
            _directive(result, key, value)
        elif value is None:
            result.pop(key, None)
        else:
            rule = schema.get(key, {})
            order = patch.get(f"$setElementOrder/{key}")
            result[key] = (
                _merge_list(result.get(key), value, rule, order)
                if isinstance(rule, Merge) and isinstance(value, list)
                else strategic_merge(result.get(key), value, {} if isinstance(rule, Merge) else rule)
            )
    return result


def _directive(result: dict[str, Any], key: str, value: Any) -> None:
    name, _, of = key.partition("/")
    if name == "$deleteFromPrimitiveList":
        if not isinstance(value, list):
            raise bad_request(f"{key} must be a list")
        if isinstance(result.get(of), list):
            result[of] = [item for item in result[of] if item not in value]
    elif name not in ("$patch", "$retainKeys", "$setElementOrder"):
        raise bad_request(f"unknown directive {key} in a strategic merge patch")


def _merge_list(current: Any, patch: list[Any], rule: Merge, order: Any) -> list[Any]:
    before = current if isinstance(current, list) else []
    if not rule.key:
        merged = before + [item for item in patch if item not in before]
        return _ordered(merged, order, lambda item: item)
    if {"$patch": "replace"} in patch:
        return [item for item in patch if item != {"$patch": "replace"}]
    merged = list(before)
    for item in patch:
        if not isinstance(item, dict) or rule.key not in item:
            raise bad_request(f"map: {item!r} does not contain declared merge key: {rule.key}")
        at = next((i for i, old in enumerate(merged) if _key(old, rule) == item[rule.key]), None)
        if item.get("$patch") == "delete":
            if at is not None:
                del merged[at]
        elif at is None:
            merged.append(strategic_merge({}, item, rule.of))
        else:
            merged[at] = strategic_merge(merged[at], item, rule.of)
    wanted = [_key(item, rule) for item in order] if isinstance(order, list) else None
    return _ordered(merged, wanted, lambda item: _key(item, rule))


def _key(item: Any, rule: Merge) -> Any:
    return item.get(rule.key) if isinstance(item, dict) else None


def _ordered(items: list[Any], order: Any, key: Any) -> list[Any]:
    """The items in the given order; items that it does not name follow in their old order."""
    if not isinstance(order, list):
        return items
    place = {repr(value): i for i, value in enumerate(order)}
    return sorted(items, key=lambda item: place.get(repr(key(item)), len(place)))


Object = Json
"""One API object as plain JSON, without `kind` and `apiVersion`: these depend on the served version."""
VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class GroupVersion(NamedTuple):
    """An API group at one version, such as resource.k8s.io/v1."""

    group: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def is_custom(self) -> bool:
        """Whether the group is not part of Kubernetes: its kinds are custom resources."""
        is_own = self.group.endswith(".k8s.io") and not self.group.endswith(".x-k8s.io")
        return "." in self.group and not is_own


class Column(NamedTuple):
    """One column of the table that kubectl prints."""

    name: str
    cell: Callable[[Object, datetime], Any]
    type: str = "string"
    format: str = ""
    priority: int = 0


class Judged(NamedTuple):
    """What an API server looks at in an expression."""

    refusal: str = ""
    """Why it does not compile; empty if it does"""
    cost: int = 0
    """Steps at worst (CEL-19)"""


def _not_compiled(_expression: str) -> Judged:
    """Nothing is wrong with an expression as far as is looked."""
    return Judged()


class Refuses(NamedTuple):
    """How expressions are judged. They are read in a higher room."""

    selector: Callable[[str], Judged] = _not_compiled
    derived: Callable[[str], Judged] = _not_compiled
    """Of derived attributes"""
    extractor: Callable[[str], Judged] = _not_compiled
    """Of sharing affinity"""


class Review(Struct, frozen=True):
    """One write to validate."""

    new: Object
    old: Object | None
    served: GroupVersion
    """The version that the client used."""
    subresource: str
    namespace_labels: Mapping[str, str]
    refuses: Refuses = Refuses()


class Conversion(NamedTuple):
    """Conversion between a served version and the stored one. Both functions return a new object."""

    up: Callable[[Object], Object]
    """From the served version to the stored one."""
    down: Callable[[Object], Object]


def _unchanged(_obj: Object) -> None:
    """No change."""


def _no_defaults(_obj: Object, _now: datetime) -> None:
    """No defaults."""


def _no_rules(_root: Field, _review: Review) -> None:
    """No rules: every write is valid."""


class ServedKind(Struct, frozen=True, eq=False):
    """A kind of object with everything needed to serve it."""

    kind: str
    plural: str
    singular: str
    served: tuple[GroupVersion, ...]
    """In order of preference. The first is the stored version; `conversions` converts the others."""
    since: Mapping[str, int] = field(default_factory=dict)
    """Version -> the first minor release of Kubernetes 1 that has it; all have the others."""
    until: Mapping[str, int] = field(default_factory=dict)
    """Version -> the last one."""
    description: str = ""
    """One sentence for `kubectl explain`."""
    namespaced: bool = True
    categories: tuple[str, ...] = ()
    """Groups of kinds that kubectl lists together, such as `all`."""
    short_names: tuple[str, ...] = ()
    has_status: bool = False
    counts_generations: bool = False
    """Whether metadata.generation counts the changes of spec."""
    label_names: bool = False
    """Whether names are DNS labels rather than DNS subdomains."""
    unconditional: bool = True
    """Whether an update may omit resourceVersion."""
    returns_deleted: bool = False
    """Whether DELETE returns the object instead of a Status."""
    strategic: Schema = field(default_factory=lambda: {"metadata": METADATA})
    """Merge keys for strategic merge patches. Custom resources do not support these patches."""
    selectable: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Field selector label to path in the stored object, besides metadata.name and metadata.namespace."""
    columns: tuple[Column, ...] = ()
    defaults: Callable[[Object, datetime], None] = _no_defaults
    on_create: Callable[[Object], None] = _unchanged
    """Changes a new object, before its defaults"""
    rules: Callable[[Field, Review], None] = _no_rules
    """Add a cause for each rule that the new object violates"""
    conversions: Mapping[GroupVersion, Conversion] = field(default_factory=dict)

    @property
    def stored(self) -> GroupVersion:
        """The stored version."""
        return self.served[0]

    @property
    def group(self) -> str:
        """The group shown in errors."""
        return self.served[0].group

    def validate(self, review: Review) -> list[Cause]:
        """The rules that a write violates."""
        root = Field(review.new)
        self.rules(root, review)
        return root.causes

    def is_in(self, release: int, served: GroupVersion) -> bool:
        """Whether a minor release of Kubernetes 1 has a version of the kind."""
        return self.since.get(served.version, 0) <= release <= self.until.get(served.version, release)

    def upgrade(self, obj: Object, served: GroupVersion) -> Object:
        """Convert `obj` from `served` to the stored version."""
        conversion = self.conversions.get(served)
        return conversion.up(obj) if conversion else obj

    def downgrade(self, obj: Object, served: GroupVersion) -> Object:
        """Convert the stored `obj` to `served`."""
        conversion = self.conversions.get(served)
        return conversion.down(obj) if conversion else obj


_EVENT_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}


def _request_up(request: Object) -> Object:
    """VER-3: any inline field becomes `exactly`."""
    inline = {key: request[key] for key in INLINE if request.get(key) is not None}
    if not inline:
        return request
    rest = {key: value for key, value in request.items() if key not in INLINE}
    return {**rest, "exactly": inline}


def _lifted(field: str) -> Change:
    """The fields of an object take its place. Without the object, nothing changes."""

    def change(thing: Object) -> Object:
        inner = thing.get(field)
        if not isinstance(inner, dict):
            return thing
        return {**{key: value for key, value in thing.items() if key != field}, **inner}

    return change


_device_up = _lifted("basic")
"""VER-2: all fields except the name are under `basic`. A device without it stays empty."""


def _device_down(device: Object) -> Object:
    basic = {key: value for key, value in device.items() if key != "name"}
    return {**({"name": device["name"]} if "name" in device else {}), "basic": basic}


def _unset(spec: Object) -> Object:
    """VER-4: the empty string and false mean the same as an absent field."""
    empty = {"nodeName": "", "allNodes": False}
    return {key: value for key, value in spec.items() if key not in empty or value != empty[key]}


def _renamed(names: dict[str, str]) -> Callable[[Object], Object]:
    return lambda obj: {names.get(key, key): value for key, value in obj.items()}


CLAIM_V1BETA1 = Conversion(
    inside(("spec", "devices"), each("requests", _request_up)),
    inside(("spec", "devices"), each("requests", _lifted("exactly"))),
)
TEMPLATE_V1BETA1 = Conversion(
    inside(("spec",), CLAIM_V1BETA1.up),
    inside(("spec",), CLAIM_V1BETA1.down),
)
SLICE_V1BETA1 = Conversion(
    inside(("spec",), lambda spec: _unset(each("devices", _device_up)(spec))),
    inside(("spec",), each("devices", _device_down)),
)
EVENT = Conversion(_renamed({new: old for old, new in _EVENT_NAMES.items()}), _renamed(_EVENT_NAMES))
