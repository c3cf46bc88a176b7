"""One device of a ResourceSlice (DEV-1 to DEV-10)."""

from reconciler.api.objects.semver import Semver
from reconciler.api.validation.amounts import quantity
from reconciler.api.validation.fields import Field
from reconciler.api.validation.names import dns_label, dns_subdomain, label_name, qualified_name
from reconciler.api.validation.nodes import check_node_selector
from reconciler.api.validation.policies import check_policy
from reconciler.api.validation.taints import check_taint

MAX_ATTRIBUTES_AND_CAPACITIES = 32
MAX_ATTRIBUTE_VALUES = 48
MAX_TAINTS = 16
MAX_COUNTER_SETS = 2
MAX_COUNTERS = 32
MAX_GROUPS = 2
MAX_BINDING_CONDITIONS = 4
MAX_STRING = 64
INT64 = 2**63
_SINGLE = ("int", "bool", "string", "version")
_LISTS = {"ints": "int", "bools": "bool", "strings": "string", "versions": "version"}


def check_device(device: Field, *, per_device: bool) -> None:
    """Check a device; with `per_device` it must select its own nodes."""
    dns_label(device["name"])
    _attributes(device)
    shared = device["allowMultipleAllocations"].flag()
    for name, amount in device["capacity"].entries():
        qualified_name(amount, name)
        value = quantity(amount["value"])
        if value is None:
            amount["value"].required()
        elif amount["requestPolicy"].present and not shared:
            amount["requestPolicy"].forbidden("only allowed with `allowMultipleAllocations`")
        elif amount["requestPolicy"].present:
            check_policy(amount["requestPolicy"], value)
    _draws(device["consumesCounters"])
    _nodes(device, per_device=per_device)
    device["taints"].at_most(MAX_TAINTS)
    for taint in device["taints"].items():
        check_taint(taint)
    check_binding_conditions(device)
    device["bindsToNode"].flag()


def _attributes(device: Field) -> None:
    """DEV-2 and DEV-3."""
    attributes, capacity = device["attributes"].entries(), device["capacity"].object()
    if len(attributes) + len(capacity) > MAX_ATTRIBUTES_AND_CAPACITIES:
        device.value_invalid(
            f"has {len(attributes) + len(capacity)} attributes and capacities; "
            f"at most {MAX_ATTRIBUTES_AND_CAPACITIES} are allowed"
        )
    values = 0
    for name, attribute in attributes:
        qualified_name(attribute, name)
        given = [key for key in (*_SINGLE, *_LISTS) if attribute[key].present]
        if len(given) != 1:
            attribute.invalid("exactly one value must be specified")
        for key in given:
            items = attribute[key].items() if key in _LISTS else [attribute[key]]
            values += len(items)
            if not items:
                attribute[key].required("must have at least one value")
            for item in items:
                _attribute_value(item, _LISTS.get(key, key))
    if values > MAX_ATTRIBUTE_VALUES:
        device["attributes"].invalid(f"has {values} values; at most {MAX_ATTRIBUTE_VALUES} are allowed")


def _attribute_value(value: Field, kind: str) -> None:
    if kind == "int":
        if not -INT64 <= value.integer() < INT64:
            value.invalid("must fit in 64 bits")
    elif kind == "bool":
        value.flag()
    elif len(value.text().encode()) > MAX_STRING:
        value.too_long(MAX_STRING)
    elif kind == "version":
        try:
            Semver.parse(value.text())
        except ValueError as exc:
            value.invalid(str(exc))


def _draws(draws: Field) -> None:
    """DEV-6."""
    draws.at_most(MAX_COUNTER_SETS)
    sets: set[str] = set()
    for draw in draws.items():
        dns_label(draw["counterSet"])
        draw["counterSet"].unique(sets)
        if not draw["counters"].entries():
            draw["counters"].required()
        draw["counters"].at_most(MAX_COUNTERS)
        for name, counter in draw["counters"].entries():
            dns_label(Field(name, counter.path, counter.causes))
            if quantity(counter["value"]) is None:
                counter["value"].required()
        draw["compatibilityGroups"].at_most(MAX_GROUPS)
        groups: set[str] = set()
        for group in draw["compatibilityGroups"].items():
            group.unique(groups, group.text())


def _nodes(device: Field, *, per_device: bool) -> None:
    """DEV-7."""
    given = [key for key in ("nodeName", "nodeSelector", "allNodes") if device[key].present]
    if per_device and len(given) != 1:
        device.required("exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required")
    if not per_device:
        for key in given:
            device[key].forbidden("only allowed when `perDeviceNodeSelection` is set")
        return
    if device["nodeName"].present:
        dns_subdomain(device["nodeName"])
    if device["nodeSelector"].present:
        check_node_selector(device["nodeSelector"])
    if device["allNodes"].present and not device["allNodes"].flag():
        device["allNodes"].invalid("must be either unset or set to true")


def check_binding_conditions(holder: Field) -> None:
    """DEV-9, for a device and for an allocation result."""
    wanted, failed = holder["bindingConditions"], holder["bindingFailureConditions"]
    seen: set[str] = set()
    for conditions in (wanted, failed):
        conditions.at_most(MAX_BINDING_CONDITIONS)
        for condition in conditions.items():
            label_name(condition)
            condition.unique(seen)
    if bool(wanted.items()) != bool(failed.items()):
        (failed if wanted.items() else wanted).required("set both lists or neither")
