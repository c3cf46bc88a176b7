"""ResourceSlices (SL-1 to SL-5)."""

from datetime import datetime

from reconciler.api.objects.quantity import ZERO
from reconciler.api.validation import devices as of_devices
from reconciler.api.validation import fields
from reconciler.api.validation.kinds import Object, Review
from reconciler.api.versions.shapes import mapping, objects

MAX_DEVICES = 128
MAX_DEVICES_WITH_TAINTS_OR_COUNTERS = 64
MAX_COUNTER_SETS = 8
MAX_COUNTERS = 32
MAX_EXTRACTORS = 8
_TARGETS = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_ONE_TARGET = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_LISTS = ("ints", "bools", "strings", "versions")


def check_slice(root: fields.Field, review: Review) -> None:
    """Check a ResourceSlice."""
    spec = root["spec"]
    fields.driver_name(spec["driver"])
    _pool(spec["pool"])
    _target(spec)
    if spec["devices"].present and spec["sharedCounters"].present:
        spec.value_invalid("only one of `sharedCounters` or `devices` is allowed")
    devices, per_device = spec["devices"], spec["perDeviceNodeSelection"].flag()
    devices.at_most(_most_devices(devices))
    names: set[str] = set()
    for device in devices.items():
        device["name"].unique(names)
        of_devices.check_device(device, per_device=per_device)
    _shared_counters(spec["sharedCounters"])
    if spec["sharingAffinity"].items():
        _affinity(spec, review)
    of_devices.check_skipped_operations(spec["skipNodeOperations"])
    check_partition_type(spec)
    if review.old is not None:
        _immutable(spec, fields.Field(review.old)["spec"])


def _pool(pool: fields.Field) -> None:
    fields.pool_name(pool["name"])
    pool["generation"].not_negative()
    if pool["resourceSliceCount"].integer() <= 0:
        pool["resourceSliceCount"].invalid("must be greater than 0")


def _target(spec: fields.Field) -> None:
    """SL-2: exactly one way to select nodes."""
    given = [key for key in _TARGETS if spec[key].present]
    if not given:
        spec.required(_ONE_TARGET)
    elif len(given) > 1:
        spec.value_invalid(
            f"exactly one of {', '.join(f'`{key}`' for key in _TARGETS)} is required, not {len(given)}"
        )
    if spec["nodeName"].present:
        fields.dns_subdomain(spec["nodeName"])
    if spec["nodeSelector"].present:
        of_devices.check_node_selector(spec["nodeSelector"])
        if len(spec["nodeSelector"]["nodeSelectorTerms"].items()) > 1:
            spec["nodeSelector"]["nodeSelectorTerms"].invalid("must have exactly one node selector term")
    for key in ("allNodes", "perDeviceNodeSelection"):
        if spec[key].present and not spec[key].flag():
            spec[key].invalid("must be either unset or set to true")


def _most_devices(devices: fields.Field) -> int:
    """SL-4: the limit of devices is lower if devices can be large."""
    for device in devices.items():
        attributes = [value for _, value in device["attributes"].entries()]
        if (
            device["taints"].items()
            or device["consumesCounters"].items()
            or any(value[key].present for value in attributes for key in _LISTS)
        ):
            return MAX_DEVICES_WITH_TAINTS_OR_COUNTERS
    return MAX_DEVICES


def _shared_counters(sets: fields.Field) -> None:
    """SL-5."""
    for counters in fields.named(sets, MAX_COUNTER_SETS):
        if not counters["counters"].entries():
            counters["counters"].required()
        counters["counters"].at_most(MAX_COUNTERS)
        for counter in fields.labelled(counters["counters"]):
            total = fields.quantity(counter["value"]) or ZERO
            if counter["requestPolicy"].present:
                of_devices.check_policy(counter["requestPolicy"], total)
            if counter["valueFrom"].present:
                counter["valueFrom"].forbidden("only devices draw what requests say")


def check_partition_type(spec: fields.Field) -> None:
    """SL-6: each device that draws from counters has the attribute that tells its kind of partition."""
    name, own = spec["partitionTypeAttribute"], spec["driver"].text() + "/"
    if not name.present:
        return
    drawing = [device for device in spec["devices"].items() if device["consumesCounters"].items()]
    if not drawing:
        name.invalid("may only be set on a slice which declares devices that consume counters")
    before = len(name.causes)
    fields.fully_qualified_name(name)
    for device in drawing if len(name.causes) == before else ():  # no device has such a name
        attributes = device["attributes"].object()
        found = attributes.get(name.text(), attributes.get(name.text().removeprefix(own)))
        value = fields.Field(found, f"{device['attributes'].path}[{name.text()}]", name.causes)
        if not value.present:
            value.required("`partitionTypeAttribute` names this attribute")
        elif not value["string"].present:
            value.invalid("must be a string value because `partitionTypeAttribute` names this attribute")


def _affinity(spec: fields.Field, review: Review) -> None:
    """AFF-6."""
    extractors = spec["sharingAffinity"]
    if spec["devices"].items():
        spec.value_invalid("only one of `sharingAffinity` or `devices` is allowed")
    extractors.at_most(MAX_EXTRACTORS)
    seen: set[tuple[str, str]] = set()
    for one in extractors.items():
        selector = one["selector"]["cel"]["expression"]
        if one["selector"].present:
            of_devices.check_expression(selector, review.refuses.selector)
        if not one["cel"].entries():
            one["cel"].required()
        one["cel"].at_most(MAX_EXTRACTORS)
        for key, expression in one["cel"].entries():
            of_devices.check_expression(expression, review.refuses.extractor)
            text = selector.text() if one["selector"].present else ""
            if (text, key) in seen:
                expression.invalid("another entry with the same selector has this key")
            seen.add((text, key))


def _immutable(spec: fields.Field, old: fields.Field) -> None:
    for new, before in (
        (spec["driver"], old["driver"]),
        (spec["nodeName"], old["nodeName"]),
        (spec["pool"]["name"], old["pool"]["name"]),
    ):
        if new.value != before.value:
            new.invalid("field is immutable")


def default_slice(obj: Object, now: datetime) -> None:
    """Set the time of taints, and convert amounts to canonical form."""
    spec = mapping(obj.get("spec"))
    for counters in objects(spec.get("sharedCounters")):
        _canonical_counters(counters)
    for device in objects(spec.get("devices")):
        of_devices.default_taints(device.get("taints"), now)
        for draw in objects(device.get("consumesCounters")):
            _canonical_counters(draw)
        for amount in objects([*mapping(device.get("capacity")).values()]):
            amount["value"] = fields.canonical(amount.get("value", "0"))
            _canonical_policy(amount.get("requestPolicy"))


def _canonical_counters(holder: Object) -> None:
    for counter in objects([*mapping(holder.get("counters")).values()]):
        if "valueFrom" not in counter:
            counter["value"] = fields.canonical(counter.get("value", "0"))
        _canonical_policy(counter.get("requestPolicy"))


def _canonical_policy(policy: object) -> None:
    if not isinstance(policy, dict):
        return
    if "default" in policy:
        policy["default"] = fields.canonical(policy["default"])
    if isinstance(policy.get("validValues"), list):
        policy["validValues"] = [fields.canonical(value) for value in policy["validValues"]]
    fields.canonical_values(policy.get("validRange"))
