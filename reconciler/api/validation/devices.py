"""Devices of ResourceSlices (DEV-1 to DEV-10): attributes, draws, node selectors, taints, policies.

Also tolerations and DeviceTaintRules (CLM-5, TNT-7).
"""

import json
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise

from reconciler.api.objects.quantity import ZERO, Quantity
from reconciler.api.objects.semver import STRICT
from reconciler.api.validation import fields
from reconciler.api.validation.kinds import Judged, Object, Review
from reconciler.api.versions.shapes import mapping, objects

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def check_node_selector(selector: fields.Field) -> None:
    """Check that there is a term and that every requirement is valid."""
    terms = selector["nodeSelectorTerms"]
    if not terms.items():
        terms.required("must have at least one node selector term")
    for term in terms.items():
        for requirement in term["matchExpressions"].items():
            _expression(requirement)
        for requirement in term["matchFields"].items():
            _field(requirement)


def _expression(requirement: fields.Field) -> None:
    if not fields.is_label_name(requirement["key"].text()):
        requirement["key"].invalid("must be a label name")
    values = requirement["values"]
    texts = [value.text() for value in values.items()]
    match requirement["operator"].text():
        case "In" | "NotIn":
            if not texts:
                values.required("must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist":
            if texts:
                values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        case "Gt" | "Lt":
            if len(texts) != 1:
                values.required("must be specified single value when `operator` is 'Lt' or 'Gt'")
        case _:
            requirement["operator"].unsupported(_OPERATORS)


def _field(requirement: fields.Field) -> None:
    requirement["key"].one_of(("metadata.name",))
    requirement["operator"].one_of(("In", "NotIn"))
    if len([value.text() for value in requirement["values"].items()]) != 1:
        requirement["values"].required("must be only one value")


EFFECTS = ("None", "NoExecute", "NoSchedule")


def check_taint(taint: fields.Field) -> None:
    """Check a taint of a device or a rule."""
    fields.label_name(taint["key"])
    fields.label_value(taint["value"])
    if taint["effect"].needed():
        taint["effect"].one_of(EFFECTS)
    fields.time(taint["timeAdded"])


def check_tolerations(tolerations: fields.Field) -> None:
    """Check the tolerations of a request."""
    for toleration in tolerations.items():
        key, operator = toleration["key"].text(), toleration["operator"].text()
        if key and not fields.is_label_name(key):
            toleration["key"].invalid("must be a label name")
        toleration["operator"].one_of(("Equal", "Exists"))
        if operator == "Exists" and toleration["value"].text():
            toleration["value"].invalid("must be empty for operator `Exists`")
        if operator == "Equal":
            fields.label_value(toleration["value"])
        if toleration["effect"].text():
            toleration["effect"].one_of(EFFECTS)
        toleration["tolerationSeconds"].integer()


def default_taints(taints: object, now: datetime) -> None:
    """Set timeAdded of a taint to now by default."""
    for taint in objects(taints):
        taint.setdefault("timeAdded", fields.timestamp(now))


def default_tolerations(tolerations: object) -> None:
    """Set the default operator of tolerations: Equal."""
    for toleration in objects(tolerations):
        toleration["operator"] = toleration.get("operator") or "Equal"


MAX_SELECTORS = 32
MAX_EXPRESSION = 10 * 1024
MAX_COST = 1_000_000
"""Steps of an expression at worst, and of all derived attributes of a claim"""


def check_selectors(selectors: fields.Field, judge: Callable[[str], Judged]) -> None:
    """Check shape and size, and compile what is neither missing nor too long."""
    selectors.at_most(MAX_SELECTORS)
    for selector in selectors.items():
        if not selector["cel"].present:
            selector["cel"].required()
        else:
            check_expression(selector["cel"]["expression"], judge)


def check_expression(expression: fields.Field, judge: Callable[[str], Judged]) -> int:
    """Check that an expression is neither empty, too long nor too complex, and compiles.

    The result is its steps at worst.
    """
    if not expression.needed():
        return 0
    if fields.size_of(expression.text()) > MAX_EXPRESSION:
        expression.too_long(MAX_EXPRESSION)
        return 0
    refusal, cost = judge(expression.text())
    if refusal:
        expression.invalid(f"does not compile: {refusal}")
    elif cost > MAX_COST:
        expression.forbidden(too_complex(cost))
    return cost


def too_complex(cost: int) -> str:
    """Why an expression, or all derived attributes of a claim, cost too much."""
    if cost < 2**50:
        why = (
            f"it may take {cost:,} steps, at most {MAX_COST:,} are allowed; use fewer loops, or shorter ones"
        )
    else:
        why = (
            "its steps have no bound, since it works on a text, list or amount of unknown length, such as "
            "the result of a function; compare that result instead of working on it"
        )
    return f"too complex, exceeds cost limit: {why}"


def default_rule(rule: Object, now: datetime) -> None:
    """Set the defaults of a DeviceTaintRule."""
    default_taints([mapping(rule.get("spec")).get("taint")], now)


def check_rule(root: fields.Field, review: Review) -> None:
    """Check a DeviceTaintRule."""
    spec = root["spec"]
    selector = spec["deviceSelector"]
    if selector["driver"].present:
        fields.driver_name(selector["driver"])
    if selector["pool"].present:
        fields.pool_name(selector["pool"])
    selector["device"].text()
    if review.served.version == "v1alpha3":
        check_selectors(selector["selectors"], review.refuses.selector)
        if selector["deviceClassName"].present:
            fields.dns_subdomain(selector["deviceClassName"])
    else:
        for field in ("deviceClassName", "selectors"):
            if selector[field].present:
                selector[field].forbidden("only v1alpha3 of Kubernetes 1.33 and 1.34 has it")
    if not spec["taint"].present:
        spec["taint"].required()
    else:
        check_taint(spec["taint"])


MAX_VALUES = 10
INT64 = 2**63
_MOST = Quantity.of(INT64 - 1)


def check_policy(policy: fields.Field, capacity: Quantity) -> None:
    """Check the request policy of a capacity."""
    values, valid_range = policy["validValues"], policy["validRange"]
    default = fields.quantity(policy["default"])
    if values.items() and valid_range.present:
        policy.forbidden("set at most one of `validValues` and `validRange`")
    elif (values.items() or valid_range.present) and default is None:
        policy["default"].required("required with `validValues` and `validRange`")
    elif values.items():
        _values(policy, capacity, default)
    elif valid_range.present:
        _range(policy, capacity, default)


def _values(policy: fields.Field, capacity: Quantity, default: Quantity | None) -> None:
    field = policy["validValues"]
    values = [value for value in (fields.quantity(item) for item in field.items()) if value is not None]
    field.at_most(MAX_VALUES)
    if any(low.integer >= high.integer for low, high in pairwise(values)):
        field.invalid("values must be ascending and distinct")
    if any(value > capacity for value in values):
        field.invalid("a value exceeds the capacity")
    if default is not None and default not in values:
        policy["default"].invalid("must be one of the valid values")


def _range(policy: fields.Field, capacity: Quantity, default: Quantity | None) -> None:
    field = policy["validRange"]
    low, high, step = (fields.quantity(field[key]) for key in ("min", "max", "step"))
    if low is None:
        field["min"].required()
        return
    if low > capacity:
        field["min"].invalid("exceeds the capacity")
    if high is not None and not low <= high <= capacity:
        field["max"].invalid("must be between `min` and the capacity")
    if default is not None and (default < low or (high is not None and default > high)):
        policy["default"].invalid("must be between `min` and `max`")
    if step is None:
        return
    if step.nanos <= 0:
        field["step"].invalid("must be positive")
        return
    if low + step > capacity:
        field["step"].invalid("`min` plus one step exceeds the capacity")
    stepped = ((policy["default"], default), (field["max"], high))
    for place, value in (*stepped, (field["min"], low), (field["step"], step)):
        if value is not None and value.nanos < 0:
            place.invalid("must not be negative beside a step")
        elif value is not None and value > _MOST:
            place.invalid("must fit in 64 bits beside a step")
    for place, value in stepped:
        if value is not None and value.nanos >= 0 and (value.nanos - low.nanos) % step.nanos:
            place.invalid("must be `min` plus a whole number of steps")


MAX_ATTRIBUTES_AND_CAPACITIES = 32
MAX_ATTRIBUTE_VALUES = 48
MAX_TAINTS = 16
MAX_COUNTER_SETS = 2
MAX_COUNTERS = 32
MAX_GROUPS = 2
MAX_BINDING_CONDITIONS = 4
MAX_STRING = 64
_SINGLE = ("int", "bool", "string", "version")
_LISTS = {"ints": "int", "bools": "bool", "strings": "string", "versions": "version"}


def check_device(device: fields.Field, *, per_device: bool) -> None:
    """Check a device; with `per_device` it must select its own nodes."""
    fields.dns_label(device["name"])
    _attributes(device)
    shared = device["allowMultipleAllocations"].flag()
    for name, amount in device["capacity"].entries():
        fields.qualified_name(amount, name)
        value = fields.quantity(amount["value"]) or ZERO
        if amount["requestPolicy"].present and not shared:
            amount["requestPolicy"].forbidden("only allowed with `allowMultipleAllocations`")
        elif amount["requestPolicy"].present:
            check_policy(amount["requestPolicy"], value)
    _draws(device["consumesCounters"])
    _nodes(device, per_device=per_device)
    device["taints"].at_most(MAX_TAINTS)
    for taint in device["taints"].items():
        check_taint(taint)
    check_binding_conditions(device)
    check_node_resources(device)
    device["bindsToNode"].flag()


_OF_NODES = ("cpu", "memory")
_ONE_MULTIPLE = "exactly one of `capacityKey` or `deviceMultiplier` is required"


def check_node_resources(device: fields.Field) -> None:
    """NAR-7: how a device uses resources of its node."""
    capacity = device["capacity"].object()
    for name, use in device["nodeAllocatableResources"].entries():
        if name not in _OF_NODES and not name.startswith("hugepages-"):
            why = "must be a node allocatable resource name: cpu, memory or hugepages-SIZE"
            use.note("FieldValueInvalid", f"Invalid value: {json.dumps(name)}: {why}")
        mapping, overhead = use["mapping"], use["overhead"]
        if not (mapping.present or overhead.present):
            use.required("at least one of mapping or overhead must be set")
        if mapping.present:
            _mapping(mapping, capacity)
        if overhead.present:
            amounts = [fields.quantity(overhead[key]) for key in ("perPod", "perContainer")]
            if amounts == [None, None]:
                overhead.value_invalid("at least one of perPod or perContainer must be set")
            for key, amount in zip(("perPod", "perContainer"), amounts, strict=True):
                if amount is not None and amount.nanos < 0:
                    overhead[key].invalid("must be non-negative")


def _mapping(mapping: fields.Field, capacity: Object) -> None:
    key, times, alone = mapping["capacityKey"], mapping["capacityMultiplier"], mapping["deviceMultiplier"]
    if key.present == alone.present:
        mapping.value_invalid(_ONE_MULTIPLE)
    if key.present and key.text() not in capacity:
        key.note("FieldValueNotFound", f"Not found: {json.dumps(key.text())}: name a capacity of the device")
    if key.present and not times.present:
        times.required("capacityMultiplier is required when capacityKey is set")
    if times.present and not key.present:
        key.required("capacityKey is required when capacityMultiplier is set")
    for one in (times, alone):
        amount = fields.quantity(one)
        if amount is not None and amount.nanos <= 0:
            one.invalid("must be positive")


def _attributes(device: fields.Field) -> None:
    """DEV-2 and DEV-3."""
    attributes, capacity = device["attributes"].entries(), device["capacity"].object()
    if len(attributes) + len(capacity) > MAX_ATTRIBUTES_AND_CAPACITIES:
        device.value_invalid(
            f"has {len(attributes) + len(capacity)} attributes and capacities; "
            f"at most {MAX_ATTRIBUTES_AND_CAPACITIES} are allowed"
        )
    values = 0
    for name, attribute in attributes:
        fields.qualified_name(attribute, name)
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


def _attribute_value(value: fields.Field, kind: str) -> None:
    if kind == "int":
        if not -INT64 <= value.integer() < INT64:
            value.invalid("must fit in 64 bits")
    elif kind == "bool":
        value.flag()
    elif fields.size_of(value.text()) > MAX_STRING:
        value.too_long(MAX_STRING)
    elif kind == "version" and STRICT.fullmatch(value.text()) is None:
        value.invalid("must be a semantic version such as 1.2.3 (semver 2.0.0)")


def _draws(draws: fields.Field) -> None:
    """DEV-6."""
    draws.at_most(MAX_COUNTER_SETS)
    sets: set[str] = set()
    for draw in draws.items():
        fields.dns_label(draw["counterSet"])
        draw["counterSet"].unique(sets)
        if not draw["counters"].entries():
            draw["counters"].required()
        draw["counters"].at_most(MAX_COUNTERS)
        for counter in fields.labelled(draw["counters"]):
            fields.quantity(counter["value"])
            if counter["valueFrom"].present:
                _source(counter)
        check_groups(draw["compatibilityGroups"])


def check_groups(groups: fields.Field) -> None:
    """Check the compatibility groups of a draw."""
    groups.at_most(MAX_GROUPS)
    seen: set[str] = set()
    for group in groups.items():
        group.unique(seen, group.text())


def _source(counter: fields.Field) -> None:
    """SCC-1: a draw of which a request says the amount."""
    if counter["value"].present:
        counter.value_invalid("set exactly one of `value` and `valueFrom`")
    name = counter["valueFrom"]["capacityName"]
    if not name.text():
        name.required("the capacity of which requests say the amount")
    else:
        fields.qualified_name(name, name.text())


def _nodes(device: fields.Field, *, per_device: bool) -> None:
    """DEV-7."""
    given = [key for key in ("nodeName", "nodeSelector", "allNodes") if device[key].present]
    if per_device and len(given) != 1:
        device.required("exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required")
    if not per_device:
        for key in given:
            device[key].forbidden("only allowed when `perDeviceNodeSelection` is set")
        return
    if device["nodeName"].present:
        fields.dns_subdomain(device["nodeName"])
    if device["nodeSelector"].present:
        check_node_selector(device["nodeSelector"])
    if device["allNodes"].present and not device["allNodes"].flag():
        device["allNodes"].invalid("must be either unset or set to true")


_SKIPPED = ("NodePrepareResources", "NodeUnprepareResources", "*")


def check_skipped_operations(operations: fields.Field) -> None:
    """Check what a kubelet skips: what is prepared is also unprepared."""
    seen: set[object] = set()
    for operation in operations.items():
        operation.one_of(_SKIPPED)
        operation.unique(seen)
    if "NodePrepareResources" in seen and not seen & {"NodeUnprepareResources", "*"}:
        operations.invalid("skip NodeUnprepareResources as well as NodePrepareResources")


def check_binding_conditions(holder: fields.Field) -> None:
    """DEV-9, for a device and for an allocation result."""
    wanted, failed = holder["bindingConditions"], holder["bindingFailureConditions"]
    seen: set[str] = set()
    for conditions in (wanted, failed):
        conditions.at_most(MAX_BINDING_CONDITIONS)
        for condition in conditions.items():
            fields.label_name(condition)
            condition.unique(seen)
    if bool(wanted.items()) != bool(failed.items()):
        (failed if wanted.items() else wanted).required("set both lists or neither")
