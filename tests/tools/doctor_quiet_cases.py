"""For every rule the smallest change by which manifests do not break it."""

from reconciler.api.objects.semantics import ALL_GATES, SHARED_CAPACITY
from tests.tools.doctor_manifests import (
    FITS,
    GPU,
    HALVES,
    MIG,
    ONE,
    SHARED,
    A,
    B,
    Case,
    administrative,
    claim,
    composed,
    counters,
    device,
    device_class,
    draw,
    drawing,
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

SOUND = yaml_of(counters(), part("s", *HALVES, count=2), GPU, claim("c", held=("a",)), node("n"))

QUIET = [
    *(
        Case(check, "a sound pod", yaml_of(claim("c"), using(from_claim("a", "c"), name="a", request="r")))
        for check in ("claim-entry", "missing-claim")
    ),
    Case(
        "group-tree",
        "a tree",
        yaml_of(
            composite_group("tree", 2), child_of("tree", pod_group("a")), child_of("tree", pod_group("b"))
        ),
    ),
    Case("duplicate-minor", "minors of two types", yaml_of(machine(gpu(0), gpu(0, type="rdma")))),
    Case(
        "negative-draw",
        "nothing",
        yaml_of(counters(), part("s", drawing("a", draw("set", memory="0")), count=2)),
    ),
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
            "negative-draw",
            "pool-invalid",
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
    Case("unused-field", "none", SOUND),
    Case("preview-field", "none", SOUND, gates=ALL_GATES | {SHARED_CAPACITY}),
    Case("unused-field", "not set", yaml_of(part("s", {**device("a"), "nodeAllocatableResources": None}))),
    Case("unknown-kind", "of other groups", yaml_of({**ONE, "apiVersion": "v1", "kind": "Other"})),
    Case(
        "unknown-kind",
        "no answer depends on it",
        yaml_of({**ONE, "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}),
    ),
    Case(
        "api-rules",
        "a taint rule of 1.33",
        yaml_of(old_taint_rule(deviceClassName="x", selectors=[{"cel": {"expression": "true"}}])),
    ),
    Case(
        "selector-raises",
        "a taint rule of 1.33 matches no device on which it fails",
        yaml_of(
            part("s", A), old_taint_rule(selectors=[{"cel": {"expression": "device.attributes['x'].y"}}])
        ),
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
    Case(
        "held-under-taint",
        "it keeps only new pods away",
        yaml_of(
            part("s", device("a", taints=[{"key": "k", "effect": "NoSchedule"}])), claim("c", held=("a",))
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
