"""For every rule the smallest manifests that break it, and the smallest change by which they do not."""

import json
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]

GATES = "dra-reconciler.io/device-extensions"


@dataclass(frozen=True)
class Case:
    check: str
    name: str
    text: str
    fields: tuple[str, ...] = ()
    says: str = ""


def yaml_of(*objects: Object) -> str:
    """JSON is YAML."""
    return "".join(f"---\n{json.dumps(one)}\n" for one in objects)


def part(
    name: str, *devices: Object, pool: str = "p", generation: int = 1, count: int = 1, **spec: Any
) -> Object:
    """A slice, for all nodes unless it says otherwise."""
    given = {"allNodes": True} if not {"nodeName", "perDeviceNodeSelection", "nowhere"} & spec.keys() else {}
    spec.pop("nowhere", None)
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": "gpu.example.com",
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            **given,
            **({"devices": list(devices)} if devices else {}),
            **spec,
        },
    }


def device(name: str, /, **fields: Any) -> Object:
    attributes = {key: {"string": value} for key, value in fields.pop("attributes", {}).items()}
    return {"name": name, **({"attributes": attributes} if attributes else {}), **fields}


def draw(counter_set: str, /, *groups: str, **counters: str) -> Object:
    amounts = {name: {"value": value} for name, value in counters.items()}
    return {
        "counterSet": counter_set,
        "counters": amounts,
        **({"compatibilityGroups": list(groups)} if groups else {}),
    }


def drawing(name: str, *draws: Object, **fields: Any) -> Object:
    return device(name, consumesCounters=list(draws), **fields)


def counters(
    name: str = "c", /, *, count: int = 2, generation: int = 1, sets: Object | None = None
) -> Object:
    shared = [
        {"name": one, "counters": {key: {"value": value} for key, value in amounts.items()}}
        for one, amounts in (sets or {"set": {"memory": "10"}}).items()
    ]
    return part(name, count=count, generation=generation, sharedCounters=shared)


def stating(name: str, expression: str, **attributes: str) -> Object:
    return device(name, attributes=attributes, compatibleOnlyWith={"expression": expression})


def kind_is(kind: str) -> str:
    return f'device.attributes["gpu.example.com"].kind == "{kind}"'


def cel(*expressions: str) -> list[Object]:
    return [{"cel": {"expression": one}} for one in expressions]


def device_class(*expressions: str, name: str = "gpu") -> Object:
    spec = {"selectors": cel(*expressions)}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": spec,
    }


def claim(
    name: str, *expressions: str, held: tuple[str, ...] = (), wants: str = "gpu", **result: Any
) -> Object:
    exactly = {"deviceClassName": wants, **({"selectors": cel(*expressions)} if expressions else {})}
    results = [
        {"request": "r", "driver": "gpu.example.com", "pool": "p", "device": one, **result} for one in held
    ]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
        **({"status": {"allocation": {"devices": {"results": results}}}} if held else {}),
    }


def node(name: str, **labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def selecting(operator: str, *values: str) -> Object:
    """A device for the nodes with some label."""
    requirement = {"key": "gpu", "operator": operator, "values": list(values)}
    return device("a", nodeSelector={"nodeSelectorTerms": [{"matchExpressions": [requirement]}]})


def composed(*devices: Object, mixins: Any = ()) -> str:
    """A slice in the shape of KEP-4815's first revision."""
    made = part("s", *devices, deviceMixins=list(mixins))
    return yaml_of({**made, "apiVersion": "resource.k8s.io/v1alpha3"})


def numbered(count: int) -> Object:
    return {f"a{number}": {"int": number} for number in range(count)}


def amounts(count: int) -> Object:
    return {f"c{number}": {"quantity": "1"} for number in range(count)}


def either(**fields: Any) -> Object:
    """A device for the nodes with one label or another."""
    terms = [{"matchExpressions": [{"key": key, "operator": "Exists"}]} for key in "xy"]
    return device("a", nodeSelector={"nodeSelectorTerms": terms}, **fields)


def extended(extension: str, *devices: Object) -> Object:
    made = part("s", *devices)
    made["metadata"]["annotations"] = {GATES: extension}
    return made


def named(made: Object, namespace: str) -> Object:
    return {**made, "metadata": {**made["metadata"], "namespace": namespace}}


def job(entry: Object) -> Object:
    spec = {"template": {"spec": {"resourceClaims": [entry]}}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}


def koordinator(partitions: str, *, spec: Object | None = None) -> Object:
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": "n", "annotations": {"scheduling.koordinator.sh/gpu-partitions": partitions}},
        "spec": {"devices": []} if spec is None else spec,
    }


def machine(*devices: Object, **metadata: Any) -> Object:
    """A Device object of Koordinator."""
    made = koordinator("{}", spec={"devices": list(devices)})
    made["metadata"] = {"name": "n", **metadata}
    return made


def gpu(minor: int, **fields: Any) -> Object:
    return {"type": "gpu", "minor": minor, "health": True, **fields}


def administrative(namespace: str) -> Object:
    made = named(claim("c"), namespace)
    made["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    return made


A, B = device("a"), device("b")
GPU = device_class('device.driver == "gpu.example.com"')
ONE = part("s", A)
OLD = {**ONE, "apiVersion": "resource.k8s.io/v1beta2"}
BARE = part("s", {"name": "a", "attributes": {"kind": "x"}})
FITS = drawing("a", draw("set", memory="10"))
HALVES = (drawing("a", draw("set", memory="6")), drawing("b", draw("set", memory="6")))
SHARED = device("a", allowMultipleAllocations=True)
MIG = stating("a", kind_is("mig"), kind="foo")
SELF = "spec.devices[0].compatibleOnlyWith.expression"
IN_CLASS = "spec.selectors[0].cel.expression"
IN_CLAIM = "spec.devices.requests[0].exactly"
GROUPS = "spec.devices[0].consumesCounters[0].compatibilityGroups"
AT_COUNT, RESULT = "spec.pool.resourceSliceCount", "status.allocation.devices.results[0]"


def grouped(*groups: str) -> str:
    """Devices a, b, ... of one counter set, each with a group."""
    devices = [drawing(chr(97 + at), draw("set", group, memory="1")) for at, group in enumerate(groups)]
    return yaml_of(counters(), part("s", *devices, count=2))


def excluding(*draws: str) -> str:
    first, second = (
        drawing(name, draw("set", name, memory=one)) for name, one in zip("ab", draws, strict=True)
    )
    return yaml_of(counters(), part("s", first, second, count=2))


def two_sets(*modes: str) -> str:
    """Devices a and b of two counter sets, each compatible only with its own mode."""
    parts = [
        {**stating(name, kind_is(mode), kind=mode), "consumesCounters": [draw(f"set-{name}", memory="1")]}
        for name, mode in zip("ab", modes, strict=True)
    ]
    sets = {f"set-{name}": {"memory": "1"} for name in "ab"}
    return yaml_of(counters(sets=sets), part("s", *parts, count=2))


CASES = [
    Case("unreadable", "broken YAML", "a: [", ("",), "expected"),
    Case("unreadable", "no apiVersion", yaml_of({**ONE, "apiVersion": None}), ("apiVersion",), "missing"),
    Case(
        "unreadable",
        "devices of an old shape",
        yaml_of(part("s", {"name": "a", "basic": {}})),
        ("spec.devices[0].basic",),
    ),
    Case(
        "unreadable",
        "a request of an old shape",
        yaml_of({**claim("c"), "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "gpu"}]}}}),
        ("spec.devices.requests[0].deviceClassName",),
    ),
    Case("put-right", "an attribute without a type", yaml_of(BARE), ("spec.devices[0].attributes.kind",)),
    Case("old-version", "v1beta2", yaml_of(OLD), ("apiVersion",), "v1beta2"),
    Case(
        "duplicate-object", "two slices", yaml_of(ONE, part("s", B, pool="q")), ("metadata.name",), "a.yaml:2"
    ),
    Case("api-rules", "a count of zero", yaml_of(part("s", A, generation=-1)), ("spec.pool.generation",)),
    Case(
        "api-rules",
        "129 devices",
        yaml_of(part("s", *(device(f"d{n}") for n in range(129)))),
        ("spec.devices",),
        "128",
    ),
    Case("api-rules", "no device name", yaml_of(part("s", device("A"))), ("spec.devices[0].name",)),
    Case(
        "api-rules",
        "33 requests",
        yaml_of(
            {
                **claim("c"),
                "spec": {
                    "devices": {
                        "requests": [
                            {"name": f"r{n}", "exactly": {"deviceClassName": "gpu"}} for n in range(33)
                        ]
                    }
                },
            }
        ),
        ("spec.devices.requests",),
        "32",
    ),
    Case(
        "api-rules",
        "what stands behind a wrong type",
        yaml_of(part("s", device("B", attributes={}, capacity={"m": "1"}))),
        ("spec.devices[0].capacity[m]", "spec.devices[0].name"),
    ),
    Case(
        "api-rules",
        "of a status",
        yaml_of(claim("c", held=("A",))),
        ("status.allocation.devices.results[0].device",),
    ),
    Case("api-rules", "a namespace", yaml_of(named(claim("c"), "A")), ("metadata.namespace",)),
    Case(
        "put-right",
        "a device without basic",
        yaml_of({**part("s", {"name": "a", "basic": {}}, A, B), "apiVersion": "resource.k8s.io/v1beta1"}),
        ("spec.devices[1]",),
        "has no `basic`, so this device is left out (2 in all)",
    ),
    Case(
        "unreadable",
        "a device of neither kind",
        composed({"name": "a", "composite": {}}, {"name": "b"}),
        ("spec.devices[1]",),
        "neither of basic and composite",
    ),
    Case(
        "first-revision-limits",
        "two sources",
        composed(
            {"name": "a", "composite": {}},
            {"name": "b", "composite": {}},
            {"name": "c", "composite": {"consumesCapacityFrom": [{"name": "a"}, {"name": "b"}]}},
        ),
        ("spec.devices[2].composite.consumesCapacityFrom",),
        "has 2 entries; 1 is allowed",
    ),
    Case(
        "first-revision-limits",
        "128 mixins and devices",
        composed(
            *({"name": f"d{n}", "composite": {}} for n in range(120)),
            mixins=[{"name": f"m{n}", "composite": {}} for n in range(8)],
        ),
        ("spec.devices",),
        "8 mixins and 120 devices",
    ),
    Case(
        "first-revision-limits",
        "33 attributes and capacities",
        composed(
            {"name": "a", "composite": {"includes": [{"name": "m"}], "capacity": amounts(3)}},
            mixins=[{"name": "m", "composite": {"attributes": numbered(30)}}],
        ),
        ("spec.devices[0].composite",),
        "33 attributes and capacities with its mixins",
    ),
    Case(
        "first-revision-limits",
        "33 of a mixin",
        composed(
            {"name": "a", "composite": {}}, mixins=[{"name": "m", "composite": {"attributes": numbered(33)}}]
        ),
        ("spec.deviceMixins[0].composite",),
        "33 attributes and capacities;",
    ),
    Case(
        "unknown-field",
        "a slip",
        yaml_of(part("s", device("a", bindToNode=True))),
        ("spec.devices[0].bindToNode",),
        "did you mean bindsToNode?",
    ),
    Case(
        "dropped-expression",
        "only the field",
        yaml_of(part("s", MIG)),
        ("spec.devices[0].compatibleOnlyWith",),
    ),
    Case("unrendered-template", "of Go", yaml_of(named(claim("c{{.Index}}"), "x")), ("metadata.name",)),
    Case(
        "claim-source",
        "in a Job",
        yaml_of(job({"name": "c", "source": {"resourceClaimName": "x"}})),
        ("spec.template.spec.resourceClaims[0].source",),
    ),
    Case("koordinator-shape", "no spec", yaml_of(koordinator("{}", spec={})), ("spec",)),
    Case(
        "koordinator-shape",
        "no JSON",
        yaml_of(koordinator("{a: 1}")),
        ("metadata.annotations[scheduling.koordinator.sh/gpu-partitions]",),
    ),
    Case("pool-incomplete", "one of two", yaml_of(part("s", A, count=2)), (AT_COUNT,), "1 of 2"),
    Case("pool-incomplete", "two of one", yaml_of(ONE, part("t", B)), (AT_COUNT,), "2 of 1"),
    Case(
        "pool-obsolete",
        "one behind",
        yaml_of(ONE, part("t", A, generation=2)),
        ("spec.pool.generation",),
        "generation 2",
    ),
    Case(
        "pool-disagrees",
        "two counts",
        yaml_of(part("s", A, count=2), part("t", B, count=3)),
        (AT_COUNT,),
        "the count is 3, but 2 in",
    ),
    Case("duplicate-device", "in one slice", yaml_of(part("s", A, A)), ("spec.devices[1].name",), "twice"),
    Case(
        "duplicate-device",
        "in two slices",
        yaml_of(part("s", A, count=2), part("t", A, count=2)),
        ("spec.devices[0].name",),
        "slice s",
    ),
    Case(
        "device-on-two-nodes",
        "a pool of both",
        yaml_of(part("s", A, nodeName="x", count=2), part("t", A, nodeName="y", count=2)),
        ("spec.devices[0].name",),
        "node x and on node y",
    ),
    Case(
        "duplicate-counter-set",
        "in two slices",
        yaml_of(counters(), counters("d")),
        ("spec.sharedCounters[0].name",),
        "set",
    ),
    Case(
        "dangling-counter-set",
        "a slip",
        yaml_of(counters(), part("s", drawing("a", draw("sett", memory="1")), count=2)),
        ("spec.devices[0].consumesCounters[0].counterSet",),
        "did you mean set?",
    ),
    Case(
        "dangling-counter",
        "a slip",
        yaml_of(counters(), part("s", drawing("a", draw("set", memry="1")), count=2)),
        ("spec.devices[0].consumesCounters[0].counters[memry]",),
        "did you mean memory?",
    ),
    Case(
        "device-never-fits",
        "11 of 10",
        yaml_of(counters(), part("s", drawing("a", draw("set", memory="11")), count=2)),
        ("spec.devices[0].consumesCounters[0].counters[memory].value",),
        "11 of memory",
    ),
    Case(
        "unused-counter",
        "cores",
        yaml_of(counters(sets={"set": {"memory": "10", "cores": "4"}}), part("s", FITS, count=2)),
        ("spec.sharedCounters[0].counters",),
        "cores",
    ),
    Case(
        "counters-overcommitted",
        "12 of 10",
        yaml_of(counters(), part("s", *HALVES, count=2), claim("c", held=("a", "b"))),
        ("spec.sharedCounters[0].counters[memory]",),
        "12 of memory",
    ),
    Case(
        "larger-first",
        "the whole before its halves",
        yaml_of(
            counters(), part("s", FITS, *(drawing(one, draw("set", memory="5")) for one in "bc"), count=2)
        ),
        ("spec.devices[0]",),
        "a precedes smaller devices of set set: b, c",
    ),
    Case(
        "larger-first",
        "in two slices, two sizes",
        yaml_of(
            counters(count=3),
            part("t", drawing("c", draw("set", memory="3")), count=3),
            part("s", FITS, drawing("b", draw("set", memory="5")), count=3),
        ),
        ("spec.devices[0]",),
        "b, c; 1 more device of the pool precedes smaller ones",
    ),
    Case("selector-refused", "no CEL", yaml_of(device_class("device.")), (IN_CLASS,)),
    Case(
        "selector-refused",
        "an unknown field",
        yaml_of(GPU, claim("c", "device.drvr == ''")),
        (f"{IN_CLAIM}.selectors[0].cel.expression",),
    ),
    Case(
        "selector-raises",
        "not on all",
        yaml_of(part("s", device("a", attributes={"kind": "x"}), B), device_class(kind_is("x"))),
        (IN_CLASS,),
        "gpu.example.com/p/b",
    ),
    Case(
        "matches-nothing",
        "a class",
        yaml_of(ONE, device_class("false")),
        ("spec.selectors",),
        "0 of 1 devices",
    ),
    Case(
        "matches-nothing",
        "a request of its class",
        yaml_of(ONE, GPU, claim("c", "false")),
        (f"{IN_CLAIM}.selectors",),
        "class gpu",
    ),
    Case(
        "foreign-domain",
        "almost the driver",
        yaml_of(ONE, device_class('device.attributes["gpu.exmple.com"].kind == "x"')),
        (IN_CLASS,),
        "did you mean gpu.example.com?",
    ),
    Case(
        "missing-class",
        "a slip",
        yaml_of(GPU, claim("c", wants="gppu")),
        (f"{IN_CLAIM}.deviceClassName",),
        "gppu",
    ),
    Case(
        "no-node-selection",
        "counters",
        yaml_of(part("s", nowhere=True, sharedCounters=[{"name": "c", "counters": {"m": {"value": "1"}}}])),
        ("spec",),
        "slices of counters need one too",
    ),
    Case(
        "no-node-selection",
        "a device",
        yaml_of(part("s", A, perDeviceNodeSelection=True)),
        ("spec.devices[0]",),
        "device a",
    ),
    Case(
        "bad-node-selector",
        "IN",
        yaml_of(part("s", selecting("IN", "x"), perDeviceNodeSelection=True)),
        ("spec.devices[0].nodeSelector.nodeSelectorTerms[0].matchExpressions[0].operator",),
        "did you mean In?",
    ),
    Case(
        "bad-node-selector",
        "no values",
        yaml_of(part("s", selecting("In"), perDeviceNodeSelection=True)),
        ("spec.devices[0].nodeSelector.nodeSelectorTerms[0].matchExpressions[0]",),
        "at least one",
    ),
    Case(
        "several-terms",
        "of a device",
        yaml_of(part("s", either(), perDeviceNodeSelection=True)),
        ("spec.devices[0].nodeSelector.nodeSelectorTerms",),
        "has 2 terms",
    ),
    Case(
        "several-terms",
        "of a slice",
        yaml_of(part("s", A, nowhere=True, nodeSelector=either()["nodeSelector"])),
        ("spec.nodeSelector.nodeSelectorTerms",),
        "has 2 terms",
    ),
    Case(
        "matches-no-node",
        "a selector",
        yaml_of(node("n", gpu="y"), part("s", selecting("In", "x"), perDeviceNodeSelection=True)),
        ("spec.devices[0].nodeSelector",),
    ),
    Case(
        "matches-no-node",
        "a name",
        yaml_of(node("n"), part("s", A, nodeName="m")),
        ("spec.nodeName",),
        "node m does not exist",
    ),
    Case(
        "double-allocation",
        "two claims",
        yaml_of(ONE, claim("c", held=("a",)), claim("d", held=("a",))),
        (RESULT,),
        "default/c",
    ),
    Case(
        "unknown-device",
        "gone",
        yaml_of(ONE, claim("c", held=("z",))),
        (f"{RESULT}.device",),
        "not published",
    ),
    Case(
        "held-at-odds",
        "two groups",
        excluding("1", "1") + yaml_of(claim("c", held=("a", "b"))),
        ("spec.devices[0]",),
        "with group a",
    ),
    Case(
        "asymmetric-exclusion",
        "only b forbids",
        yaml_of(part("s", stating("a", "true", kind="foo"), stating("b", kind_is("bar"), kind="bar"))),
        ("spec.devices[1].compatibleOnlyWith.expression",),
        "b forbids a, but not the other way round",
    ),
    Case("expression-fails", "no CEL", yaml_of(part("s", stating("a", "device."), B)), (SELF,)),
    Case(
        "expression-fails",
        "on another device",
        yaml_of(part("s", stating("a", kind_is("x"), kind="x"), B)),
        (SELF,),
        "fails on b",
    ),
    Case(
        "excludes-itself",
        "of another kind",
        yaml_of(part("s", MIG, device("b", attributes={"kind": "mig"}))),
        (SELF,),
        "the expression of a is false for a itself",
    ),
    Case(
        "lonely-group",
        "foo",
        grouped("mig", "mig", "foo"),
        ("spec.devices[2].consumesCounters[0].compatibilityGroups",),
        "only c",
    ),
    Case(
        "misspelled-group", "shraed", grouped("shraed", "shared", "shared"), (GROUPS,), "did you mean shared?"
    ),
    Case("never-together", "two groups", excluding("5", "5"), ("spec.devices[0]",), "a and b"),
    Case(
        "not-compared",
        "the mode of one of two sets",
        two_sets("hw", "sw"),
        (SELF, "spec.devices[1].compatibleOnlyWith.expression"),
        ", of other counter sets",
    ),
    Case(
        "extension-conflict",
        "the field wins",
        yaml_of(extended('{"a": {"compatibleOnlyWith": {"expression": "false"}}}', stating("a", "true"))),
        (f"metadata.annotations[{GATES}]",),
        "the device's is used",
    ),
]

SOUND = yaml_of(counters(), part("s", *HALVES, count=2), GPU, claim("c", held=("a",)), node("n"))

QUIET = [
    *(
        Case(check, "a sound pool", SOUND)
        for check in (
            "unreadable",
            "put-right",
            "old-version",
            "duplicate-object",
            "api-rules",
            "unrendered-template",
            "unknown-field",
            "dropped-expression",
            "pool-incomplete",
            "pool-obsolete",
            "pool-disagrees",
            "duplicate-device",
            "duplicate-counter-set",
            "dangling-counter-set",
            "dangling-counter",
            "unused-counter",
            "counters-overcommitted",
            "selector-refused",
            "missing-class",
            "no-node-selection",
            "unknown-device",
            "matches-no-node",
            "double-allocation",
            "lonely-group",
        )
    ),
    Case("api-rules", "administrative access", yaml_of(administrative("default"), administrative("x"))),
    Case(
        "unknown-field", "what is not read here", yaml_of(part("s", device("a", nodeAllocatableResources={})))
    ),
    Case(
        "unknown-field",
        "what Koordinator's node agent writes",
        yaml_of({**machine(gpu(0, moduleID=1, conditions=[{"type": "Healthy"}])), "status": {}}),
    ),
    Case(
        "dropped-expression",
        "an annotation",
        yaml_of(extended('{"a": {"compatibleOnlyWith": {"expression": "true"}}}', A)),
    ),
    Case("api-rules", "unreadable already", yaml_of(part("s", {"name": ["a"]}))),
    Case("claim-source", "none", yaml_of(job({"name": "c", "resourceClaimName": "x"}))),
    Case("koordinator-shape", "JSON", yaml_of(koordinator('{"1": []}'))),
    Case(
        "first-revision-limits",
        "127 mixins and devices, 32 attributes",
        composed(
            {"name": "a", "basic": {"attributes": numbered(32)}},
            *({"name": f"d{n}", "composite": {"consumesCapacityFrom": [{"name": "a"}]}} for n in range(118)),
            mixins=[{"name": f"m{n}", "composite": {}} for n in range(8)],
        ),
    ),
    Case(
        "larger-first",
        "smaller ones first",
        yaml_of(counters(), part("s", drawing("b", draw("set", memory="5")), FITS, count=2)),
    ),
    Case(
        "larger-first",
        "of two nodes",
        yaml_of(
            counters(),
            part("s", nodeName="x", count=3),
            part("t", FITS, nodeName="x", count=3),
            part("u", drawing("b", draw("set", memory="5")), nodeName="y", count=3),
        ),
    ),
    Case(
        "larger-first",
        "more of one counter and less of another",
        yaml_of(
            counters(sets={"set": {"memory": "10", "cores": "4"}}),
            part(
                "s",
                drawing("a", draw("set", memory="6", cores="1")),
                drawing("b", draw("set", memory="5", cores="2")),
                count=2,
            ),
        ),
    ),
    Case("device-never-fits", "10 of 10", yaml_of(counters(), part("s", FITS, count=2))),
    Case(
        "device-on-two-nodes",
        "pools of their own",
        yaml_of(part("s", A, nodeName="x", pool="x"), part("t", A, nodeName="y", pool="y")),
    ),
    Case("duplicate-device", "an older generation", yaml_of(ONE, part("t", A, generation=2))),
    Case("unused-counter", "half a pool", yaml_of(counters())),
    Case(
        "selector-raises",
        "guarded",
        yaml_of(ONE, device_class('device.driver == "other" && ' + kind_is("x"))),
    ),
    Case("selector-raises", "by the class", yaml_of(ONE, device_class("false"), claim("c", kind_is("x")))),
    Case("matches-nothing", "the class has said it", yaml_of(ONE, claim("c", "true"), GPU)),
    Case("matches-nothing", "no slices", yaml_of(device_class("false"))),
    Case(
        "foreign-domain", "a test for it", yaml_of(ONE, device_class('"x.example.com" in device.attributes'))
    ),
    Case("bad-node-selector", "In", yaml_of(part("s", selecting("In", "x"), perDeviceNodeSelection=True))),
    Case(
        "several-terms", "of one term", yaml_of(part("s", selecting("In", "x"), perDeviceNodeSelection=True))
    ),
    Case(
        "several-terms",
        "of a device of one node",
        yaml_of(part("s", either(bindsToNode=True), perDeviceNodeSelection=True)),
    ),
    Case("matches-no-node", "no nodes", yaml_of(part("s", A, nodeName="m"))),
    Case(
        "double-allocation",
        "administrative",
        yaml_of(ONE, claim("c", held=("a",)), claim("d", held=("a",), adminAccess=True)),
    ),
    Case(
        "double-allocation",
        "shares",
        yaml_of(
            part("s", SHARED), claim("c", held=("a",), shareID="x"), claim("d", held=("a",), shareID="y")
        ),
    ),
    Case("held-at-odds", "a common group", grouped("mig", "mig") + yaml_of(claim("c", held=("a", "b")))),
    Case(
        "asymmetric-exclusion",
        "both forbid",
        yaml_of(
            part("s", stating("a", kind_is("foo"), kind="foo"), stating("b", kind_is("bar"), kind="bar"))
        ),
    ),
    Case(
        "asymmetric-exclusion",
        "only one has a word",
        yaml_of(part("s", MIG, device("b", attributes={"kind": "foo"}))),
    ),
    Case(
        "expression-fails",
        "guarded",
        yaml_of(part("s", stating("a", 'has(device.attributes["gpu.example.com"].kind)'), B)),
    ),
    Case("excludes-itself", "of its kind", yaml_of(part("s", stating("a", kind_is("foo"), kind="foo"), B))),
    Case("misspelled-group", "unlike names", grouped("mig", "mig", "foo")),
    Case("never-together", "neither would fit", excluding("6", "6")),
    Case("never-together", "a common group", grouped("mig", "mig")),
    Case("not-compared", "one mode on both", two_sets("hw", "hw")),
    Case(
        "extension-conflict",
        "the same in both",
        yaml_of(extended('{"a": {"compatibleOnlyWith": {"expression": "true"}}}', stating("a", "true"))),
    ),
]
