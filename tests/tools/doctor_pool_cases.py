"""For every rule about slices, pools and what is held the smallest manifests that break it."""

from reconciler.api.objects.semantics import ALL_GATES, SHARED_CAPACITY
from tests.tools.doctor_manifests import (
    ALL,
    AT_COUNT,
    BARE,
    DRAW,
    FITS,
    GATES,
    GROUPS,
    HALF,
    IN_CLASS,
    MIG,
    ONE,
    OVER_HALF,
    RESULT,
    SELF,
    A,
    B,
    Case,
    D,
    E,
    by_device,
    claim,
    composed,
    counters,
    device,
    device_class,
    draw,
    drawing,
    drawn,
    either,
    excluding,
    extended,
    grouped,
    kind_is,
    node,
    part,
    selecting,
    stating,
    two_sets,
    yaml_of,
)

REQUESTED = yaml_of(
    *drawn({"counterSet": "set", "counters": {"memory": {"valueFrom": {"capacityName": "memory"}}}})
)

CASES = [
    Case("put-right", "an attribute without a type", BARE).at(f"{D}.attributes.kind"),
    Case("duplicate-object", "two slices", (ONE, part("s", B, pool="q"))).at("metadata.name", "a.yaml:2"),
    Case(
        "put-right", "a device without basic",
        {**part("s", {"name": "a", "basic": {}}, A, B), "apiVersion": "resource.k8s.io/v1beta1"},
    ).at(E, "has no `basic`, so this device is left out (2 in all)"),
    Case(
        "first-revision-limits", "two sources",
        composed(
            {"name": "a", "composite": {}},
            {"name": "b", "composite": {}},
            {"name": "c", "composite": {"consumesCapacityFrom": [{"name": "a"}, {"name": "b"}]}},
        ),
    ).at("spec.devices[2].composite.consumesCapacityFrom", "has 2 entries; 1 is allowed"),
    Case(
        "first-revision-limits", "128 mixins and devices",
        composed(
            *({"name": f"d{n}", "composite": {}} for n in range(120)),
            mixins=[{"name": f"m{n}", "composite": {}} for n in range(8)],
        ),
    ).at("spec.devices", "8 mixins and 120 devices"),
    Case("unused-field", "of a preview", REQUESTED).at(
        f"{DRAW}.counters[memory].valueFrom",
        "which needs the feature gate DRASharedConsumableCapacity (preview of 1.38), and that is off",
    ),
    Case("preview-field", "with its gate on", REQUESTED, ALL_GATES | {SHARED_CAPACITY}).at(
        f"{DRAW}.counters[memory].valueFrom",
        "valueFrom belongs to DRASharedConsumableCapacity (preview of 1.38)",
    ),
    Case("dropped-expression", "only the field", part("s", MIG)).at(f"{D}.compatibleOnlyWith"),
    Case("pool-incomplete", "one of two", part("s", A, count=2)).at(AT_COUNT, "1 of 2"),
    Case("pool-incomplete", "two of one", (ONE, part("t", B))).at(AT_COUNT, "2 of 1"),
    Case("pool-obsolete", "one behind", (ONE, part("t", A, generation=2))).at(
        "spec.pool.generation", "generation 2"
    ),
    Case("pool-disagrees", "two counts", (part("s", A, count=2), part("t", B, count=3))).at(
        AT_COUNT, "the count is 3, but 2 in"
    ),
    Case("duplicate-device", "in one slice", part("s", A, A)).at(f"{E}.name", "twice"),
    Case("duplicate-device", "in two slices", (part("s", A, count=2), part("t", A, count=2))).at(
        f"{D}.name", "slice s"
    ),
    Case(
        "device-on-two-nodes", "a pool of both",
        (part("s", A, nodeName="x", count=2), part("t", A, nodeName="y", count=2)),
    ).at(f"{D}.name", "node x and on node y"),
    Case("duplicate-counter-set", "in two slices", (counters(), counters("d"))).at(
        "spec.sharedCounters[0].name", "set"
    ),
    Case("dangling-counter-set", "a slip", drawn(draw("sett", memory="1"))).at(
        f"{DRAW}.counterSet", "did you mean set?"
    ),
    Case("dangling-counter", "a slip", drawn(draw("set", memry="1"))).at(
        f"{DRAW}.counters[memry]", "did you mean memory?"
    ),
    Case("negative-draw", "below zero", drawn(draw("set", memory="-1"))).at(
        f"{DRAW}.counters[memory].value", "-1 of memory"
    ),
    Case(
        "pool-invalid", "amounts that cannot be added",
        (
            counters(sets={"set": {"memory": "9E"}}),
            drawn(draw("set", memory="9E"), draw("set", memory="1n"))[1],
        ),
    ).at("spec.pool", "too far apart"),
    Case("device-never-fits", "11 of 10", drawn(draw("set", memory="11"))).at(
        f"{DRAW}.counters[memory].value", "11 of memory"
    ),
    Case(
        "device-never-fits", "no amount, of less than none",
        (
            counters(sets={"set": {"memory": "-1"}}),
            drawn({"counterSet": "set", "counters": {"memory": {}}})[1],
        ),
    ).at(f"{DRAW}.counters[memory].value", "0 of memory"),
    Case(
        "unused-counter", "cores",
        (counters(sets={"set": {"memory": "10", "cores": "4"}}), part("s", FITS, count=2)),
    ).at("spec.sharedCounters[0].counters", "cores"),
    Case(
        "counters-overcommitted", "12 of 10", (*drawn(OVER_HALF, OVER_HALF), claim("c", held=("a", "b")))
    ).at("spec.sharedCounters[0].counters[memory]", "12 of memory"),
    Case("larger-first", "the whole before its halves", drawn(ALL, HALF, HALF)).at(
        D, "a precedes smaller devices of set set: b, c"
    ),
    Case(
        "larger-first", "in two slices, two sizes",
        (
            counters(count=3),
            part("t", drawing("c", draw("set", memory="3")), count=3),
            part("s", FITS, drawing("b", HALF), count=3),
        ),
    ).at(D, "b, c; 1 more device of the pool precedes smaller ones"),
    Case(
        "foreign-domain", "almost the driver",
        (ONE, device_class('device.attributes["gpu.exmple.com"].kind == "x"')),
    ).at(IN_CLASS, "did you mean gpu.example.com?"),
    Case(
        "no-node-selection", "counters",
        part("s", nowhere=True, sharedCounters=[{"name": "c", "counters": {"m": {"value": "1"}}}]),
    ).at("spec", "slices of counters need one too"),
    Case("no-node-selection", "a device", by_device(A)).at(D, "device a"),
    Case("bad-node-selector", "IN", by_device(selecting("IN", "x"))).at(
        f"{D}.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].operator", "did you mean In?"
    ),
    Case("bad-node-selector", "no values", by_device(selecting("In"))).at(
        f"{D}.nodeSelector.nodeSelectorTerms[0].matchExpressions[0]", "at least one"
    ),
    Case("several-terms", "of a device", by_device(either())).at(
        f"{D}.nodeSelector.nodeSelectorTerms", "has 2 terms"
    ),
    Case("several-terms", "of a slice", part("s", A, nowhere=True, nodeSelector=either()["nodeSelector"])).at(
        "spec.nodeSelector.nodeSelectorTerms", "has 2 terms"
    ),
    Case("matches-no-node", "a selector", (node("n", gpu="y"), by_device(selecting("In", "x")))).at(
        f"{D}.nodeSelector"
    ),
    Case("matches-no-node", "a name", (node("n"), part("s", A, nodeName="m"))).at(
        "spec.nodeName", "node m does not exist"
    ),
    Case("double-allocation", "two claims", (ONE, claim("c", held=("a",)), claim("d", held=("a",)))).at(
        RESULT, "default/c"
    ),
    Case("unknown-device", "gone", (ONE, claim("c", held=("z",)))).at(f"{RESULT}.device", "not published"),
    Case(
        "held-under-taint", "of the slice",
        (part("s", device("a", taints=[{"key": "k", "effect": "NoExecute"}])), claim("c", held=("a",))),
    ).at(D, "a has the taint k:NoExecute and is held by default/c"),
    Case("held-at-odds", "two groups", excluding("1", "1") + yaml_of(claim("c", held=("a", "b")))).at(
        D, "with group a"
    ),
    Case(
        "asymmetric-exclusion", "only b forbids",
        part("s", stating("a", "true", kind="foo"), stating("b", kind_is("bar"), kind="bar")),
    ).at(f"{E}.compatibleOnlyWith.expression", "b forbids a, but not the other way round"),
    Case("expression-fails", "no CEL", part("s", stating("a", "device."), B)).at(SELF),
    Case("expression-fails", "on another device", part("s", stating("a", kind_is("x"), kind="x"), B)).at(
        SELF, "fails on b"
    ),
    Case("excludes-itself", "of another kind", part("s", MIG, device("b", attributes={"kind": "mig"}))).at(
        SELF, "the expression of a is false for a itself"
    ),
    Case("lonely-group", "foo", grouped("mig", "mig", "foo")).at(
        "spec.devices[2].consumesCounters[0].compatibilityGroups", "only c"
    ),
    Case("misspelled-group", "shraed", grouped("shraed", "shared", "shared")).at(
        GROUPS, "did you mean shared?"
    ),
    Case("never-together", "two groups", excluding("5", "5")).at(D, "a and b"),
    Case("not-compared", "the mode of one of two sets", two_sets("hw", "sw")).at(
        (SELF, f"{E}.compatibleOnlyWith.expression"), ", of other counter sets"
    ),
    Case(
        "extension-conflict", "the field wins",
        extended('{"a": {"compatibleOnlyWith": {"expression": "false"}}}', stating("a", "true")),
    ).at(f"metadata.annotations[{GATES}]", "the device's is used"),
]  # fmt: skip
