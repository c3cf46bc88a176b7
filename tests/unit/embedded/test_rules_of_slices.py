"""Validation of slices, classes and taint rules (SL-*, DEV-*, CLS-*)."""

from datetime import UTC, datetime

import pytest

from reconciler.api.validation.kinds import Object, Review
from reconciler.api.validation.served_kinds import DEVICE_CLASS
from reconciler.cel.refusals import REFUSES
from reconciler.embedded import ApiServer
from tests.tools.driving import MERGE, SLICES, call, causes, device_slice, ok, problems, refused

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
RULES = "/apis/resource.k8s.io/v1/devicetaintrules"
TERM = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
D = "spec.devices[0]"
POLICY = f"{D}.capacity[m].requestPolicy"
TERMS = "spec.nodeSelector.nodeSelectorTerms"


def sets(count, counters=1):
    return [
        {"name": f"s{i}", "counters": {f"c{j}": {"value": "1"} for j in range(counters)}}
        for i in range(count)
    ]


def draws(count, counters=1):
    return [{"counterSet": entry.pop("name"), **entry} for entry in sets(count, counters)]


def counting(counters):
    return device_slice(devices=None, sharedCounters=counters)


def selecting(terms):
    return device_slice(nodeName=None, nodeSelector={"nodeSelectorTerms": terms})


def pool(**fields):
    return device_slice(pool={"name": "p", "generation": 1, "resourceSliceCount": 1, **fields})


def config(**parameters):
    return {"config": [{"opaque": {"driver": "d", "parameters": parameters}}]}


def device(**fields):
    return device_slice(devices=[{"name": "d", **fields}])


def many(count, **fields):
    return device_slice(devices=[{"name": f"d{i}", **fields} for i in range(count)])


def shared(policy, value="10"):
    return device(allowMultipleAllocations=True, capacity={"m": {"value": value, "requestPolicy": policy}})


def uses(use, resource="cpu"):
    capacity = {"cpus": {"value": "8"}}
    return device(allowMultipleAllocations=True, capacity=capacity, nodeAllocatableResources={resource: use})


def kinds(attributes):
    drawing = {"name": "d", "consumesCounters": draws(1), "attributes": attributes}
    return device_slice(partitionTypeAttribute="gpu.example.com/kind", devices=[drawing, {"name": "e"}])


PER_CPU = {"capacityKey": "cpus", "capacityMultiplier": "1"}
CPU = f"{D}.nodeAllocatableResources[cpu]"


ACCEPTED = {
    "a kind of partitions": kinds({"kind": {"string": "1g"}}),
    "a device that is CPUs by capacity": uses({"mapping": PER_CPU}),
    "a device that is huge pages": uses({"mapping": {"deviceMultiplier": "8"}}, "hugepages-2Mi"),
    "a device with overhead": uses({"overhead": {"perPod": "0", "perContainer": "100m"}}),
    "128 plain devices": many(128),
    "64 devices with taints": many(64, taints=[{"key": "k", "effect": "None"}]),
    "counters without devices": counting(sets(8, 32)),
    "nothing at all": device_slice(devices=None),
    "all nodes": device_slice(nodeName=None, allNodes=True),
    "a selector of one term": selecting([TERM]),
    "devices that name their nodes": device_slice(
        nodeName=None,
        perDeviceNodeSelection=True,
        devices=[
            {"name": "a", "allNodes": True},
            {"name": "b", "nodeName": "n"},
            {"name": "c", "nodeSelector": {"nodeSelectorTerms": [TERM, TERM]}},
        ],
    ),
    "a driver in upper case": device_slice(driver="GPU.Example.com"),
    "a pool of several parts": pool(name="a.b/c", generation=0),
    "32 attributes and capacities": device(
        attributes={f"a{i}": {"int": i} for i in range(16)},
        capacity={f"c{i}": {"value": "1"} for i in range(16)},
    ),
    "every kind of attribute": device(
        attributes={
            "a": {"int": -1},
            "d.example/b": {"bool": False},
            "c": {"string": "x" * 64},
            "d": {"version": "1.2.3-rc.1+b"},
            "e": {"ints": [1, 2]},
        }
    ),
    "two counter sets": device(consumesCounters=draws(2, 32)),
    "binding conditions": device(bindingConditions=["a"], bindingFailureConditions=["b"], bindsToNode=True),
    "a list of valid values": shared({"default": "2", "validValues": ["1", "2", "10"]}),
    "a valid range": shared({"default": "4", "validRange": {"min": "2", "max": "10", "step": "2"}}),
    "an amount that is left out": device(
        capacity={"m": {}}, consumesCounters=[{"counterSet": "s", "counters": {"c": {}}}]
    ),
    "counters without amounts": counting([{"name": "s", "counters": {"c": None}}]),
    "a negative draw": device(consumesCounters=[{"counterSet": "s", "counters": {"c": {"value": "-3"}}}]),
    "a default above the capacity": shared({"default": "11"}),
    "a range below zero without steps": shared({"default": "-1", "validRange": {"min": "-2"}}),
    "no valid values": shared({"default": "1", "validValues": [], "validRange": {"min": "1"}}),
    "a version beyond 64 bits": device(attributes={"v": {"version": "1.0.99999999999999999999"}}),
    "operations to skip": device_slice(
        skipNodeOperations=["NodePrepareResources", "NodeUnprepareResources"], devices=None
    ),
    "all operations to skip": device_slice(skipNodeOperations=["*", "NodePrepareResources"]),
    "fields nobody here knows": device(compatibleOnlyWith=["x"]),
}


@pytest.mark.parametrize("body", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_slices_that_are_accepted(body):
    """The clock stands still: a taint written without its time starts anew with every write."""
    api = ApiServer(now=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    assert ok(api, "POST", SLICES, body)["metadata"]["generation"] == 1
    assert ok(api, "PUT", f"{SLICES}/s", body)["metadata"]["generation"] == 1, (
        "what it accepts it accepts again"
    )


REFUSED = {
    "a use of no resource of nodes": (
        uses({"mapping": PER_CPU}, "x.io/gpu"),
        f"{D}.nodeAllocatableResources[x.io/gpu]: Invalid",
    ),
    "a use of what only containers request": (
        uses({"mapping": PER_CPU}, "ephemeral-storage"),
        f"{D}.nodeAllocatableResources[ephemeral-storage]: Invalid",
    ),
    "a kind of partitions without draws": (
        device_slice(partitionTypeAttribute="d/kind"),
        "spec.partitionTypeAttribute: Invalid",
    ),
    "a kind of partitions that a device does not have": (
        kinds({}),
        f"{D}.attributes[gpu.example.com/kind]: Required",
    ),
    "a kind of partitions that is no text": (
        kinds({"kind": {"int": 1}}),
        f"{D}.attributes[gpu.example.com/kind]: Invalid",
    ),
    "a use without mapping and overhead": (uses({}), f"{CPU}: Required"),
    "a mapping by capacity and by device": (
        uses({"mapping": {**PER_CPU, "deviceMultiplier": "1"}}),
        f"{CPU}.mapping: Invalid",
    ),
    "a mapping of an unknown capacity": (
        uses({"mapping": {**PER_CPU, "capacityKey": "gpus"}}),
        f"{CPU}.mapping.capacityKey: NotFound",
    ),
    "a mapping by nothing": (
        uses({"mapping": {"deviceMultiplier": "0"}}),
        f"{CPU}.mapping.deviceMultiplier: Invalid",
    ),
    "a mapping without multiplier": (
        uses({"mapping": {"capacityKey": "cpus"}}),
        f"{CPU}.mapping.capacityMultiplier: Required",
    ),
    "an empty overhead": (uses({"overhead": {}}), f"{CPU}.overhead: Invalid"),
    "a negative overhead": (uses({"overhead": {"perPod": "-1"}}), f"{CPU}.overhead.perPod: Invalid"),
    "no driver": (device_slice(driver=None), "spec.driver: Required"),
    "a long driver": (device_slice(driver="x" * 64), "spec.driver: TooLong"),
    "a bad driver": (device_slice(driver="a_b"), "spec.driver: Invalid"),
    "no pool": (pool(name=None), "spec.pool.name: Required"),
    "an empty part of a pool": (pool(name="a//b"), "spec.pool.name: Invalid"),
    "a negative generation": (pool(generation=-1), "spec.pool.generation: Invalid"),
    "no slice count": (pool(resourceSliceCount=None), "spec.pool.resourceSliceCount: Invalid"),
    "two targets": (device_slice(allNodes=True), "spec: Invalid"),
    "an empty node name": (device_slice(nodeName=""), "spec.nodeName: Required"),
    "all nodes false": (device_slice(nodeName=None, allNodes=False), "spec.allNodes: Invalid"),
    "two terms": (selecting([TERM, TERM]), f"{TERMS}: Invalid"),
    "no term": (selecting([]), f"{TERMS}: Required"),
    "a strange operator": (
        selecting([{"matchExpressions": [{"key": "a", "operator": "Near"}]}]),
        f"{TERMS}[0].matchExpressions[0].operator: NotSupported",
    ),
    "129 devices": (many(129), "spec.devices: TooMany"),
    "65 devices with lists": (many(65, attributes={"a": {"ints": [1]}}), "spec.devices: TooMany"),
    "a name twice": (device_slice(devices=[{"name": "d"}, {"name": "d"}]), "spec.devices[1].name: Duplicate"),
    "a name in upper case": (device_slice(devices=[{"name": "D"}]), f"{D}.name: Invalid"),
    "counters beside devices": (device_slice(sharedCounters=sets(1)), "spec: Invalid"),
    "9 counter sets": (counting(sets(9)), "spec.sharedCounters: TooMany"),
    "33 counters": (counting(sets(1, 33)), "spec.sharedCounters[0].counters: TooMany"),
    "no counters": (counting([{"name": "s", "counters": {}}]), "spec.sharedCounters[0].counters: Required"),
    "33 attributes": (device(attributes={f"a{i}": {"int": 1} for i in range(33)}), f"{D}: Invalid"),
    "49 values": (device(attributes={"a": {"ints": list(range(49))}}), f"{D}.attributes: Invalid"),
    "an attribute without a value": (device(attributes={"a": {}}), f"{D}.attributes[a]: Invalid"),
    "an attribute that is null": (device(attributes={"a": None}), f"{D}.attributes[a]: Invalid"),
    "an attribute with two": (
        device(attributes={"a": {"int": 1, "bool": True}}),
        f"{D}.attributes[a]: Invalid",
    ),
    "an int beyond 64 bits": (device(attributes={"a": {"int": 2**63}}), f"{D}.attributes[a].int: Invalid"),
    "a long string": (device(attributes={"a": {"string": "x" * 65}}), f"{D}.attributes[a].string: TooLong"),
    "a short version": (device(attributes={"a": {"version": "1.2"}}), f"{D}.attributes[a].version: Invalid"),
    "a bad key": (device(attributes={"1a": {"int": 1}}), f"{D}.attributes[1a]: Invalid"),
    "a long key": (device(attributes={"a" * 33: {"int": 1}}), f"{D}.attributes[{'a' * 33}]: TooLong"),
    "3 draws": (device(consumesCounters=draws(3)), f"{D}.consumesCounters: TooMany"),
    "17 taints": (
        device(taints=[{"key": f"k{i}", "effect": "None"} for i in range(17)]),
        f"{D}.taints: TooMany",
    ),
    "a strange effect": (
        device(taints=[{"key": "k", "effect": "Explode"}]),
        f"{D}.taints[0].effect: NotSupported",
    ),
    "a lone binding condition": (device(bindingConditions=["a"]), f"{D}.bindingFailureConditions: Required"),
    "a condition on both sides": (
        device(bindingConditions=["a"], bindingFailureConditions=["a"]),
        f"{D}.bindingFailureConditions[0]: Duplicate",
    ),
    "a node of its own without leave": (device(nodeName="n"), f"{D}.nodeName: Forbidden"),
    "no node of its own": (device_slice(nodeName=None, perDeviceNodeSelection=True), f"{D}: Required"),
    "a policy on a dedicated device": (
        device(capacity={"m": {"value": "1", "requestPolicy": {"default": "1"}}}),
        f"{POLICY}: Forbidden",
    ),
    "values and range": (
        shared({"default": "1", "validValues": ["1"], "validRange": {"min": "1"}}),
        f"{POLICY}: Forbidden",
    ),
    "values out of order": (
        shared({"default": "1", "validValues": ["2", "1"]}),
        f"{POLICY}.validValues: Invalid",
    ),
    "a default that is no member": (
        shared({"default": "3", "validValues": ["1", "2"]}),
        f"{POLICY}.default: Invalid",
    ),
    "no default": (shared({"validRange": {"min": "1"}}), f"{POLICY}.default: Required"),
    "a range without a start": (
        shared({"default": "1", "validRange": {"max": "2"}}),
        f"{POLICY}.validRange.min: Required",
    ),
    "a range beyond the capacity": (
        shared({"default": "1", "validRange": {"min": "1", "max": "11"}}),
        f"{POLICY}.validRange.max: Invalid",
    ),
    "a range below zero": (
        shared({"default": "0", "validRange": {"min": "-1", "step": "1"}}),
        f"{POLICY}.validRange.min: Invalid",
    ),
    "a step that is zero": (
        shared({"default": "1", "validRange": {"min": "1", "step": "0"}}),
        f"{POLICY}.validRange.step: Invalid",
    ),
    "an operation that is not one": (
        device_slice(skipNodeOperations=["Everything"]),
        "spec.skipNodeOperations[0]: NotSupported",
    ),
    "an operation twice": (
        device_slice(skipNodeOperations=["*", "*"]),
        "spec.skipNodeOperations[1]: Duplicate",
    ),
    "preparing without unpreparing": (
        device_slice(skipNodeOperations=["NodePrepareResources"]),
        "spec.skipNodeOperations: Invalid",
    ),
    "a default between two steps": (
        shared({"default": "3", "validRange": {"min": "2", "step": "2"}}),
        f"{POLICY}.default: Invalid",
    ),
}


@pytest.mark.parametrize(("body", "problem"), REFUSED.values(), ids=REFUSED.keys())
def test_slices_that_are_refused_and_why(body, problem):
    assert problems(ApiServer(), "POST", SLICES, body) == [problem]


@pytest.mark.parametrize(
    "patch", [{"driver": "x.example"}, {"nodeName": "node-2"}, {"pool": {"name": "other"}}]
)
def test_driver_pool_and_node_of_a_slice_never_change(patch):
    api = ApiServer()
    ok(api, "POST", SLICES, device_slice())
    (cause,) = causes(api, "PATCH", f"{SLICES}/s", {"spec": patch}, media=MERGE)
    assert cause[1] == "FieldValueInvalid"


def test_amounts_come_back_in_canonical_form():
    amounts = {"m": {"value": "1.5Gi"}, "n": {"value": 0.5}, "o": {"value": 2}}
    made = ok(ApiServer(), "POST", SLICES, device(capacity=amounts))
    assert made["spec"]["devices"][0]["capacity"] == {
        "m": {"value": "1536Mi"}, "n": {"value": "500m"}, "o": {"value": "2"},
    }  # fmt: skip


def test_an_amount_that_cannot_be_read_is_a_bad_request():
    body = device(capacity={"m": {"value": "lots"}})
    assert refused(ApiServer(), "POST", SLICES, body) == (400, "BadRequest")


@pytest.mark.parametrize("name", ["huawei.com/Ascend910B", "example.com/" + "x" * 63])
def test_names_of_extended_resources(name: str):
    spec = {"extendedResourceName": name, "config": [{"requests": ["r"], "opaque": CONFIG}]}
    made = ok(ApiServer(), "POST", CLASSES, {"metadata": {"name": "c"}, "spec": spec})
    assert made["spec"]["extendedResourceName"] == name


def test_amounts_that_are_left_out_are_zero():
    made = ok(ApiServer(), "POST", SLICES, ACCEPTED["an amount that is left out"])["spec"]["devices"][0]
    assert made["capacity"] == {"m": {"value": "0"}}
    assert made["consumesCounters"][0]["counters"] == {"c": {"value": "0"}}


@pytest.mark.parametrize(
    "name",
    [
        "", "gpu", "kubernetes.io/gpu",
        "a.kubernetes.io/gpu", "requests.example.com/gpu", "a/b/c",
        "Example.com/gpu", "example.com/" + "x" * 64, "example.com/",
        "example.com/-x",
    ],
)  # fmt: skip
def test_names_that_no_extended_resource_has(name: str):
    body = {"metadata": {"name": "c"}, "spec": {"extendedResourceName": name}}
    assert causes(ApiServer(), "POST", CLASSES, body) == [("spec.extendedResourceName", "FieldValueInvalid")]


def test_a_class_whose_selector_does_not_compile_is_refused():
    api = ApiServer()
    for text in ("device.driver ==", "nope == 1", "uint(-1) == 0u"):
        body = {"metadata": {"name": "c"}, "spec": {"selectors": [{"cel": {"expression": text}}]}}
        assert problems(api, "POST", CLASSES, body) == ["spec.selectors[0].cel.expression: Invalid"]


def test_selectors_that_an_update_leaves_as_they_are_are_not_compiled_again():
    """Whoever upgrades keeps the classes of an older server."""
    stored = {"selectors": [{"cel": {"expression": "nope"}}]}
    changed = Object(metadata={"name": "c"}, spec={**stored, "extendedResourceName": "a.b/c"})
    review = Review(changed, {"spec": stored}, DEVICE_CLASS.stored, "", {}, REFUSES)
    assert DEVICE_CLASS.validate(review) == []
    changed["spec"]["selectors"] = [*stored["selectors"], *stored["selectors"]]
    assert len(DEVICE_CLASS.validate(review)) == 2


CONFIG = {"driver": "d", "parameters": {}}
CLASS_REFUSED = {
    "33 selectors": ({"selectors": [{"cel": {"expression": "true"}}] * 33}, "spec.selectors: TooMany"),
    "a selector of another language": ({"selectors": [{}]}, "spec.selectors[0].cel: Required"),
    "a long expression": (
        {"selectors": [{"cel": {"expression": "x" * 10_241}}]},
        "spec.selectors[0].cel.expression: TooLong",
    ),
    "a config for nobody": ({"config": [{}]}, "spec.config[0].opaque: Required"),
    "parameters that are no object": (
        {"config": [{"opaque": {"driver": "d", "parameters": "x"}}]},
        "spec.config[0].opaque.parameters: Invalid",
    ),
    "large parameters": (config(x="y" * 10_240), "spec.config[0].opaque.parameters: TooLong"),
}


@pytest.mark.parametrize(("spec", "problem"), CLASS_REFUSED.values(), ids=CLASS_REFUSED.keys())
def test_classes_that_are_refused_and_why(spec, problem):
    body = {"metadata": {"name": "c"}, "spec": spec}
    assert problems(ApiServer(), "POST", CLASSES, body) == [problem]


def test_nulls_inside_parameters_are_kept():
    """They belong to the driver; everywhere else null means absent."""
    made = ok(ApiServer(), "POST", CLASSES, {"metadata": {"name": "c"}, "spec": config(x=None)})
    assert made["spec"]["config"][0]["opaque"]["parameters"] == {"x": None}


def test_a_taint_rule_needs_a_taint():
    empty = {"metadata": {"name": "r"}, "spec": {}}
    assert problems(ApiServer(), "POST", RULES, empty) == ["spec.taint: Required"]
    assert call(ApiServer(), "POST", RULES, {"metadata": {"name": "r"}})[0] == 422
