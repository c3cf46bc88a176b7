"""For every rule the smallest change by which manifests do not break it."""

from reconciler.api.objects.semantics import ALL_GATES, SHARED_CAPACITY
from tests.tools.doctor_manifests import (
    ALL,
    FITS,
    GPU,
    HALF,
    MIG,
    ONE,
    OVER_HALF,
    SHARED,
    A,
    B,
    Case,
    administrative,
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
    from_claim,
    gpu,
    grouped,
    job,
    kind_is,
    koordinator,
    machine,
    node,
    numbered,
    old_taint_rule,
    part,
    selecting,
    stating,
    two_sets,
    using,
    yaml_of,
)
from tests.tools.gangs import child_of, composite_group, pod_group

SOUND = yaml_of(*drawn(OVER_HALF, OVER_HALF), GPU, claim("c", held=("a",)), node("n"))
IN_A_SOUND_POOL = (
    "unreadable", "put-right", "old-version", "duplicate-object", "api-rules", "unrendered-template",
    "unknown-field", "dropped-expression", "pool-incomplete", "pool-obsolete", "pool-disagrees",
    "duplicate-device", "duplicate-counter-set", "dangling-counter-set", "dangling-counter",
    "negative-draw", "pool-invalid", "unused-counter", "counters-overcommitted", "selector-refused",
    "missing-class", "no-node-selection", "unknown-device", "matches-no-node", "double-allocation",
    "lonely-group",
)  # fmt: skip

QUIET = [
    *(
        Case(check, "a sound pod", (claim("c"), using(from_claim("a", "c"), name="a", request="r")))
        for check in ("claim-entry", "missing-claim")
    ),
    Case(
        "group-tree",
        "a tree",
        (composite_group("tree", 2), child_of("tree", pod_group("a")), child_of("tree", pod_group("b"))),
    ),
    Case("duplicate-minor", "minors of two types", machine(gpu(0), gpu(0, type="rdma"))),
    Case("negative-draw", "nothing", drawn(draw("set", memory="0"))),
    *(Case(check, "a sound pool", SOUND) for check in IN_A_SOUND_POOL),
    Case("api-rules", "administrative access", (administrative("default"), administrative("x"))),
    Case("unknown-field", "what is not read here", part("s", device("a", nodeAllocatableResources={}))),
    Case(
        "unknown-field",
        "what Koordinator's node agent writes",
        {**machine(gpu(0, moduleID=1, conditions=[{"type": "Healthy"}])), "status": {}},
    ),
    Case(
        "dropped-expression",
        "an annotation",
        extended('{"a": {"compatibleOnlyWith": {"expression": "true"}}}', A),
    ),
    Case("unused-field", "none", SOUND),
    Case("preview-field", "none", SOUND, gates=ALL_GATES | {SHARED_CAPACITY}),
    Case("unused-field", "not set", part("s", {**device("a"), "nodeAllocatableResources": None})),
    Case("unknown-kind", "of other groups", {**ONE, "apiVersion": "v1", "kind": "Other"}),
    Case(
        "unknown-kind",
        "no answer depends on it",
        {**ONE, "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"},
    ),
    Case(
        "api-rules",
        "a taint rule of 1.33",
        old_taint_rule(deviceClassName="x", selectors=[{"cel": {"expression": "true"}}]),
    ),
    Case(
        "selector-raises",
        "a taint rule of 1.33 matches no device on which it fails",
        (part("s", A), old_taint_rule(selectors=[{"cel": {"expression": "device.attributes['x'].y"}}])),
    ),
    Case("api-rules", "unreadable already", part("s", {"name": ["a"]})),
    Case("claim-source", "none", job({"name": "c", "resourceClaimName": "x"})),
    Case("koordinator-shape", "JSON", koordinator('{"1": []}')),
    Case(
        "first-revision-limits",
        "127 mixins and devices, 32 attributes",
        composed(
            {"name": "a", "basic": {"attributes": numbered(32)}},
            *({"name": f"d{n}", "composite": {"consumesCapacityFrom": [{"name": "a"}]}} for n in range(118)),
            mixins=[{"name": f"m{n}", "composite": {}} for n in range(8)],
        ),
    ),
    Case("larger-first", "smaller ones first", drawn(HALF, ALL)),
    Case(
        "larger-first",
        "of two nodes",
        (
            counters(),
            part("s", nodeName="x", count=3),
            part("t", FITS, nodeName="x", count=3),
            part("u", drawing("b", HALF), nodeName="y", count=3),
        ),
    ),
    Case(
        "larger-first",
        "more of one counter and less of another",
        (
            counters(sets={"set": {"memory": "10", "cores": "4"}}),
            drawn(draw("set", memory="6", cores="1"), draw("set", memory="5", cores="2"))[1],
        ),
    ),
    Case("device-never-fits", "10 of 10", drawn(ALL)),
    Case(
        "device-on-two-nodes",
        "pools of their own",
        (part("s", A, nodeName="x", pool="x"), part("t", A, nodeName="y", pool="y")),
    ),
    Case("duplicate-device", "an older generation", (ONE, part("t", A, generation=2))),
    Case("unused-counter", "half a pool", counters()),
    Case("selector-raises", "guarded", (ONE, device_class('device.driver == "other" && ' + kind_is("x")))),
    Case("selector-raises", "by the class", (ONE, device_class("false"), claim("c", kind_is("x")))),
    Case("matches-nothing", "the class has said it", (ONE, claim("c", "true"), GPU)),
    Case("matches-nothing", "no slices", device_class("false")),
    Case("foreign-domain", "a test for it", (ONE, device_class('"x.example.com" in device.attributes'))),
    Case("bad-node-selector", "In", by_device(selecting("In", "x"))),
    Case("several-terms", "of one term", by_device(selecting("In", "x"))),
    Case("several-terms", "of a device of one node", by_device(either(bindsToNode=True))),
    Case("matches-no-node", "no nodes", part("s", A, nodeName="m")),
    Case(
        "double-allocation",
        "administrative",
        (ONE, claim("c", held=("a",)), claim("d", held=("a",), adminAccess=True)),
    ),
    Case(
        "double-allocation",
        "shares",
        (part("s", SHARED), claim("c", held=("a",), shareID="x"), claim("d", held=("a",), shareID="y")),
    ),
    Case(
        "held-under-taint",
        "it keeps only new pods away",
        (part("s", device("a", taints=[{"key": "k", "effect": "NoSchedule"}])), claim("c", held=("a",))),
    ),
    Case("held-at-odds", "a common group", grouped("mig", "mig") + yaml_of(claim("c", held=("a", "b")))),
    Case(
        "asymmetric-exclusion",
        "both forbid",
        part("s", stating("a", kind_is("foo"), kind="foo"), stating("b", kind_is("bar"), kind="bar")),
    ),
    Case(
        "asymmetric-exclusion", "only one has a word", part("s", MIG, device("b", attributes={"kind": "foo"}))
    ),
    Case(
        "expression-fails",
        "guarded",
        part("s", stating("a", 'has(device.attributes["gpu.example.com"].kind)'), B),
    ),
    Case("excludes-itself", "of its kind", part("s", stating("a", kind_is("foo"), kind="foo"), B)),
    Case("misspelled-group", "unlike names", grouped("mig", "mig", "foo")),
    Case("never-together", "neither would fit", excluding("6", "6")),
    Case("never-together", "a common group", grouped("mig", "mig")),
    Case("not-compared", "one mode on both", two_sets("hw", "hw")),
    Case(
        "extension-conflict",
        "the same in both",
        extended('{"a": {"compatibleOnlyWith": {"expression": "true"}}}', stating("a", "true")),
    ),
]
