"""For every rule about documents, classes and claims the smallest manifests that break it."""

from reconciler.api.objects.semantics import ALL_GATES, GROUP_CLAIMS
from tests.tools.builders import request
from tests.tools.doctor_manifests import (
    GPU,
    IN_CLAIM,
    IN_CLASS,
    OLD,
    ONE,
    A,
    B,
    Case,
    claim,
    composed,
    deriving,
    device,
    device_class,
    from_claim,
    job,
    kind_is,
    koordinator,
    old_taint_rule,
    part,
    using,
)
from tests.tools.gangs import child_of, composite_group, pod_group
from tests.tools.small_fleet import pod

IN_TREE = "spec.parentCompositePodGroupName"

CASES = [
    Case("unreadable", "broken YAML", "a: [").at("", "expected"),
    Case("unreadable", "no apiVersion", {**ONE, "apiVersion": None}).at("apiVersion", "missing"),
    Case("unreadable", "devices of an old shape", part("s", {"name": "a", "basic": {}})).at(
        "spec.devices[0].basic"
    ),
    Case(
        "unreadable", "a request of an old shape",
        {**claim("c"), "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "gpu"}]}}},
    ).at("spec.devices.requests[0].deviceClassName"),
    Case("old-version", "v1beta2", OLD).at("apiVersion", "v1beta2"),
    Case("api-rules", "a count of zero", part("s", A, generation=-1)).at("spec.pool.generation"),
    Case(
        "api-rules", "33 requests",
        {
            **claim("c"),
            "spec": {"devices": {"requests": [request(f"r{n}", device_class="gpu") for n in range(33)]}},
        },
    ).at("spec.devices.requests", "32"),
    Case("api-rules", "of a status", claim("c", held=("A",))).at(
        "status.allocation.devices.results[0].device"
    ),
    Case(
        "unreadable", "a device of neither kind", composed({"name": "a", "composite": {}}, {"name": "b"})
    ).at("spec.devices[1]", "neither of basic and composite"),
    Case("unknown-field", "a slip", part("s", device("a", bindToNode=True))).at(
        "spec.devices[0].bindToNode", "did you mean bindsToNode?"
    ),
    Case(
        "unknown-field", "requests in the configuration of a class",
        {
            **device_class(),
            "spec": {"config": [{"requests": ["x"], "opaque": {"driver": "d", "parameters": {}}}]},
        },
    ).at("spec.config[0].requests"),
    Case("unknown-field", "of a pod, newer than this program", pod("p", newer=1)).at(
        "spec.newer", "ignored: newer, which could change the answer"
    ),
    Case("unreadable", "a PodGroup that is no gang", pod_group(least=0)).at(
        "spec.schedulingPolicy.gang.minCount"
    ),
    Case(
        "unused-field", "claims of a group, without the gate",
        pod_group(claim="t"), gates=ALL_GATES - {GROUP_CLAIMS},
    ).at("spec.resourceClaims", "ignored: resourceClaims, which needs the feature gate"),
    Case("unused-field", "gangs of 1.35", pod("p", workloadRef={"name": "w", "podGroup": "g"})).at(
        "spec.workloadRef", "ignored: workloadRef, which could change the answer"
    ),
    Case(
        "selector-refused", "of a taint rule of 1.33",
        old_taint_rule(selectors=[{"cel": {"expression": "device.nonsense"}}]),
    ).at("spec.deviceSelector.selectors[0].cel.expression"),
    Case("missing-class", "of a taint rule of 1.33", old_taint_rule(deviceClassName="x")).at(
        "spec.deviceSelector.deviceClassName"
    ),
    Case(
        "unknown-kind", "of Koordinator",
        {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": "x"},
        },
    ).at("kind", "the devices that a Reservation keeps count as free"),
    Case(
        "unknown-kind", "newer than this program",
        {"apiVersion": "resource.k8s.io/v2", "kind": "DeviceLease", "metadata": {"name": "x"}},
    ).at("kind", "ignored: DeviceLease of resource.k8s.io/v2, which could change the answer"),
    Case("claim-source", "in a Job", job({"name": "c", "source": {"resourceClaimName": "x"}})).at(
        "spec.template.spec.resourceClaims[0].source"
    ),
    Case("unrendered-template", "that is no YAML", "{{- if .Values.on }}\na: 1\n{{- end }}\n").at(
        "", "{{- if .Values.on }}; render it first"
    ),
    Case("claim-entry", "no source", using({"name": "a"})).at("spec.resourceClaims[0]", "one of"),
    Case(
        "claim-entry", "an entry that is not declared",
        (claim("c"), using(from_claim("a", "c"), container="initContainers", name="b")),
    ).at("spec.initContainers[0].resources.claims[0].name", 'Not found: "b"'),
    Case(
        "claim-entry", "a request that the claim does not have",
        (claim("c"), using(from_claim("a", "c"), name="a", request="rr")),
    ).at("spec.containers[0].resources.claims[0].request", "has no request rr"),
    Case("missing-claim", "a slip", (claim("claim"), using(from_claim("a", "clam")))).at(
        "spec.resourceClaims[0].resourceClaimName", "did you mean claim?"
    ),
    Case("missing-claim", "a template, in a Job", job({"name": "a", "resourceClaimTemplateName": "t"})).at(
        "spec.template.spec.resourceClaims[0].resourceClaimTemplateName", "ResourceClaimTemplate default/t"
    ),
    *(
        Case("group-tree", name, groups).at(field, says)
        for name, groups, field, says in (
            (
                "a slip",
                [
                    composite_group("tree", 1),
                    child_of("tree", pod_group("a")),
                    child_of("tre", pod_group("b")),
                ],
                IN_TREE,
                "did you mean tree?",
            ),
            ("a cycle", [child_of("a", composite_group("a", 1))], IN_TREE, "cycle: a"),
            (
                "another policy",
                [composite_group("tree", 1), child_of("tree", pod_group("a", None))],
                IN_TREE,
                "has the policy basic",
            ),
            (
                "five levels",
                [
                    composite_group("1", 1),
                    *(child_of(str(n), composite_group(str(n + 1), 1)) for n in range(1, 4)),
                    child_of("4", pod_group("a")),
                ],
                IN_TREE,
                "has 4 groups above it",
            ),
            (
                "too few groups",
                [composite_group("tree", 2), child_of("tree", pod_group("a"))],
                "spec.schedulingPolicy.gang.minGroupCount",
                "1 of the input",
            ),
        )
    ),
    Case("koordinator-shape", "no spec", koordinator("{}", spec={})).at("spec"),
    Case("koordinator-shape", "no JSON", koordinator("{a: 1}")).at(
        "metadata.annotations[scheduling.koordinator.sh/gpu-partitions]"
    ),
    Case("selector-refused", "no CEL", device_class("device.")).at(IN_CLASS),
    Case("selector-refused", "an unknown field", (GPU, claim("c", "device.drvr == ''"))).at(
        f"{IN_CLAIM}.selectors[0].cel.expression"
    ),
    Case(
        "selector-refused", "a text of unknown length",
        (GPU, claim("c", "device.driver.split('.')[0].lowerAscii() == 'a'")),
    ).at(f"{IN_CLAIM}.selectors[0].cel.expression", "unknown length"),
    Case("selector-raises", "a derived attribute", (ONE, GPU, deriving("device.attributes['x'].y"))).at(
        f"{IN_CLAIM}.derivedAttributes[0].expression", "no such key: y"
    ),
    Case(
        "selector-raises", "not on all",
        (part("s", device("a", attributes={"kind": "x"}), B), device_class(kind_is("x"))),
    ).at(IN_CLASS, "gpu.example.com/p/b"),
    Case("matches-nothing", "a request of its class", (ONE, GPU, claim("c", "false"))).at(
        f"{IN_CLAIM}.selectors", "class gpu"
    ),
    Case("missing-class", "a slip", (GPU, claim("c", wants="gppu"))).at(
        f"{IN_CLAIM}.deviceClassName", "gppu"
    ),
]  # fmt: skip
