"""What the admission policies let our account do to claims and pods, and which pods get a gate."""

from copy import deepcopy
from typing import Any

import kubernetes_validate
import pytest

from reconciler.api.objects.claims import ALLOCATED_AT, ANNOUNCED, FINALIZER, TIERS
from reconciler.api.objects.core import GATE
from reconciler.api.objects.gangs import FENCED, SEAT
from reconciler.control.ownership import MANAGED
from reconciler.control.special_claims import HANDED_OVER
from reconciler.operations.events_recorder import MOVED, MOVES_DROPPED, PREEMPTED
from reconciler.plugins.koordinator.vocabulary import ALLOCATED
from tests.tools.admission_policies import Policy, Review, compiled, expressions
from tests.tools.deployed_rights import ACCOUNT, policies
from tests.tools.small_fleet import claim, pod

FOUND = policies()
POLICIES = {one["metadata"]["name"]: one for one in FOUND if one["kind"].endswith("Policy")}
CLAIMS, PODS = Policy(POLICIES["dra-reconciler-claims"]), Policy(POLICIES["dra-reconciler-pods"])
EVENTS, LEASES = Policy(POLICIES["dra-reconciler-events"]), Policy(POLICIES["dra-reconciler-leases"])
GATING = Policy(POLICIES["dra-reconciler-gate-pods"])
ALLOCATION = {"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "x"}]}}
OTHER = {"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "y"}]}}
USER = {"resource": "pods", "name": "p", "uid": "1"}


@pytest.mark.parametrize("version", ["1.36", "1.37"])
@pytest.mark.parametrize("document", FOUND, ids=lambda one: f"{one['kind']} {one['metadata']['name']}")
def test_every_policy_fits_the_published_schema(document: Any, version: str):
    kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("name", POLICIES)
def test_every_expression_compiles(name: str):
    for expression in expressions(POLICIES[name]):
        compiled(expression)


def test_every_policy_is_bound_and_denies():
    bindings = {one["spec"]["policyName"]: one["spec"] for one in FOUND if one["kind"].endswith("Binding")}
    assert bindings.keys() == POLICIES.keys()
    for name, binding in bindings.items():
        optional = name == "dra-reconciler-announce-claims"
        assert POLICIES[name]["spec"]["failurePolicy"] == ("Ignore" if optional else "Fail")
        if POLICIES[name]["kind"].startswith("Validating"):
            assert "Deny" in binding["validationActions"]


@pytest.mark.parametrize("policy", [CLAIMS, PODS])
def test_others_are_left_alone(policy: Policy):
    resource = "resourceclaims" if policy is CLAIMS else "pods"
    review = Review("DELETE", old=claim("c"), resource=resource, user="system:serviceaccount:x:y")
    assert policy.refusals(review) == []
    assert policy.refusals(Review("DELETE", old=claim("c"), resource=resource, user=ACCOUNT.name))


def of(base: Any, **parts: Any) -> Any:
    """An object with parts of it replaced: `metadata__labels={}`; None removes one."""
    made = deepcopy(base)
    for path, value in parts.items():
        *outer, last = path.split("__")
        at = made
        for key in outer:
            at = at.setdefault(key, {})
        at[last] = value
        if value is None:
            del at[last]
    return made


OURS = claim("c")
NOBODYS = of(claim("c", managed=False), metadata__labels={"a": "b"})
MARKED = of(OURS, metadata__finalizers=[FINALIZER], metadata__annotations={ALLOCATED_AT: "t"})
HELD = of(MARKED, status={"allocation": ALLOCATION})
RESERVED = of(HELD, status__reservedFor=[USER])
OWNED = of(NOBODYS, metadata__ownerReferences=[{"kind": "Pod", "name": "p", "uid": "1", "apiVersion": "v1"}])
OF_GROUP = of(OWNED, metadata__ownerReferences=[{"kind": "PodGroup", "name": "g", "uid": "1"}])


@pytest.mark.parametrize(
    ("old", "new", "labels"),
    [
        pytest.param(OURS, MARKED, {}, id="mark it as ours, with the finalizer"),
        pytest.param(OURS, of(MARKED, metadata__annotations={TIERS: "x"}), {}, id="say how near devices are"),
        pytest.param(MARKED, HELD, {}, id="allocate it"),
        pytest.param(OURS, of(MARKED, metadata__annotations={SEAT: "x"}), {}, id="mark it for a gang"),
        pytest.param(OURS, of(OURS, metadata__annotations={FENCED: "true"}), {}, id="fence it"),
        pytest.param(OF_GROUP, of(OF_GROUP, metadata__finalizers=[FINALIZER]), {}, id="one of a PodGroup"),
        pytest.param(HELD, of(HELD, status={}), {}, id="take that back"),
        pytest.param(HELD, of(HELD, status=None), {}, id="take back the whole status"),
        pytest.param(of(HELD, status={}), OURS, {}, id="remove finalizer and mark"),
        pytest.param(OWNED, of(OWNED, metadata__finalizers=[FINALIZER]), {}, id="one made for a pod"),
        pytest.param(
            NOBODYS, of(NOBODYS, metadata__finalizers=[FINALIZER]), {"dra-reconciler.io/gate-pods": "true"},
            id="one of a namespace whose pods wait for us",
        ),
        pytest.param(
            of(HELD, metadata__labels={}), of(HELD, metadata__labels={}, status={}), {},
            id="free what is ours when its label is gone",
        ),
        pytest.param(
            of(HELD, status__devices=[{"device": "x"}, {"device": "z"}]), of(HELD, status={}), {},
            id="the server drops what drivers said of devices that are free",
        ),
        pytest.param(
            of(OURS, metadata__finalizers=["a"], metadata__annotations={"b": "c"}),
            of(OURS, metadata__finalizers=["a", FINALIZER], metadata__annotations={"b": "c", TIERS: "x"}),
            {}, id="beside what others wrote",
        ),
    ],
)  # fmt: skip
def test_our_own_writes_to_claims_pass(old: Any, new: Any, labels: dict[str, str]):
    for part in ("", "status"):
        assert CLAIMS.refusals(Review(old=old, new=new, subresource=part, labels=labels)) == []


REFUSED_CLAIMS = [
    pytest.param("CREATE", None, OURS, "neither creates nor deletes", id="create one"),
    pytest.param("DELETE", OURS, None, "neither creates nor deletes", id="delete one"),
    pytest.param("UPDATE", NOBODYS, of(NOBODYS, metadata__finalizers=[FINALIZER]), "not the reconciler's",
                 id="a claim of kube-scheduler's"),
    pytest.param("UPDATE", of(NOBODYS, metadata__labels={MANAGED: "false"}),
                 of(NOBODYS, metadata__labels={MANAGED: "false"}, metadata__annotations={ALLOCATED_AT: "t"}),
                 "not the reconciler's", id="make it ours by our own mark"),
    pytest.param("UPDATE", OURS, of(OURS, spec={}), "what is claimed", id="what is claimed"),
    pytest.param("UPDATE", OURS, of(OURS, metadata__labels={MANAGED: "true", "a": "b"}), "labels or owners",
                 id="a label"),
    pytest.param("UPDATE", OWNED, of(OWNED, metadata__ownerReferences=None), "labels or owners",
                 id="an owner"),
    pytest.param("UPDATE", OURS, of(OURS, metadata__annotations={"a": "b"}), "change annotations",
                 id="another's annotation"),
    pytest.param("UPDATE", of(OURS, metadata__annotations={"a": "b"}), OURS, "change annotations",
                 id="another's annotation gone"),
    pytest.param("UPDATE", of(OURS, metadata__annotations={"a": "b"}),
                 of(OURS, metadata__annotations={"a": "c"}), "change annotations",
                 id="another's annotation changed"),
    pytest.param("UPDATE", of(OURS, metadata__finalizers=["a"]), OURS, "change finalizers",
                 id="another's finalizer gone"),
    pytest.param("UPDATE", OURS, of(OURS, metadata__finalizers=["a"]), "change finalizers",
                 id="another's finalizer"),
    pytest.param("UPDATE", OURS, of(OURS, status={"allocation": ALLOCATION}), "keeps its finalizer",
                 id="an allocation without the finalizer"),
    pytest.param("UPDATE", HELD, of(HELD, metadata__finalizers=None), "keeps its finalizer",
                 id="the finalizer of what is allocated"),
    pytest.param("UPDATE", HELD, of(HELD, status={"allocation": OTHER}), "is not changed",
                 id="other devices for those allocated"),
    pytest.param("UPDATE", RESERVED, of(RESERVED, status__allocation=None), "is not changed",
                 id="take back what is in use"),
    pytest.param("UPDATE", HELD, RESERVED, "but its allocation", id="reserve it"),
    pytest.param("UPDATE", RESERVED, HELD, "but its allocation", id="end a reservation"),
    pytest.param("UPDATE", HELD, of(HELD, status__devices=[{"device": "x"}]), "but its allocation",
                 id="what drivers say of devices"),
]  # fmt: skip


@pytest.mark.parametrize(("operation", "old", "new", "why"), REFUSED_CLAIMS)
def test_other_writes_to_claims_are_refused(operation: str, old: Any, new: Any, why: str):
    found = CLAIMS.refusals(Review(operation, old=old, new=new, subresource="status"))
    assert any(why in message for message in found)
    if operation == "UPDATE":
        assert len(found) == 1  # so that each rule is seen to be needed


WAITS = pod("p", "c")
SET_FREE = of(WAITS, spec__schedulingGates=None)
ELSE = of(WAITS, spec__schedulingGates=[{"name": "a"}, {"name": GATE}])
PINNED: Any = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
GIVEN = of(SET_FREE, metadata__annotations={ALLOCATED: "{}"}, spec__affinity=PINNED)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(WAITS, SET_FREE, id="set it free"),
        pytest.param(WAITS, of(WAITS, spec__schedulingGates=[]), id="set it free, no gate left"),
        pytest.param(ELSE, of(ELSE, spec__schedulingGates=[{"name": "a"}]), id="another's gate stays"),
        pytest.param(WAITS, GIVEN, id="give it devices of Koordinator's"),
        pytest.param(WAITS, of(WAITS, metadata__annotations={SEAT: "x"}), id="a place in a gang"),
        pytest.param(of(WAITS, metadata__annotations={SEAT: "x"}), WAITS, id="take that back"),
        pytest.param(WAITS, of(WAITS, metadata__annotations={HANDED_OVER: ""}), id="another version"),
        pytest.param(
            WAITS,
            of(SET_FREE, metadata__annotations={HANDED_OVER: "then d"}, spec__affinity=PINNED),
            id="hand it over",
        ),
        pytest.param(
            of(WAITS, metadata__annotations={SEAT: "x"}),
            of(SET_FREE, metadata__annotations={SEAT: "x"}, spec__affinity=PINNED),
            id="tie it to its place in a gang",
        ),
        pytest.param(
            of(WAITS, spec__affinity={"podAffinity": {"a": "b"}}),
            of(GIVEN, spec__affinity={"podAffinity": {"a": "b"}, **PINNED}),
            id="beside affinity to pods",
        ),
    ],
)
def test_our_own_writes_to_pods_pass(old: Any, new: Any):
    assert PODS.refusals(Review(old=old, new=new, resource="pods")) == []


def other_image(of_pod: Any) -> Any:
    return of(of_pod, spec__containers=[{"name": "main", "image": "example.com/evil"}])


REFUSED_PODS = [
    pytest.param(WAITS, of(ELSE, spec__schedulingGates=[{"name": "b"}]), "takes its own gate",
                 id="add a gate"),
    pytest.param(ELSE, SET_FREE, "takes its own gate", id="take another's gate"),
    pytest.param(WAITS, of(WAITS, metadata__annotations={ALLOCATED: "{}"}), "takes its own gate",
                 id="devices, and the gate stays"),
    pytest.param(SET_FREE, of(SET_FREE, metadata__annotations={ALLOCATED: "{}"}), "does not carry the gate",
                 id="a pod that runs"),
    pytest.param(WAITS, of(SET_FREE, metadata__annotations={"a": "b"}), "change annotations",
                 id="an annotation"),
    pytest.param(of(WAITS, metadata__annotations={"a": "b"}), SET_FREE, "change annotations",
                 id="an annotation gone"),
    pytest.param(WAITS, of(SET_FREE, metadata__labels={"a": "b"}), "labels, finalizers", id="a label"),
    pytest.param(WAITS, of(SET_FREE, metadata__finalizers=["a"]), "labels, finalizers", id="a finalizer"),
    pytest.param(WAITS, of(SET_FREE, metadata__ownerReferences=[{}]), "labels, finalizers", id="an owner"),
    pytest.param(WAITS, other_image(SET_FREE), "what a pod runs", id="an image"),
    pytest.param(WAITS, of(SET_FREE, spec__initContainers=[{"name": "i"}]), "what a pod runs", id="init"),
    pytest.param(WAITS, of(SET_FREE, spec__tolerations=[{}]), "what a pod runs", id="a toleration"),
    pytest.param(WAITS, of(SET_FREE, spec__nodeSelector={"a": "b"}), "what a pod runs", id="a node selector"),
    pytest.param(WAITS, of(SET_FREE, spec__activeDeadlineSeconds=1), "what a pod runs", id="a deadline"),
    pytest.param(WAITS, of(SET_FREE, spec__terminationGracePeriodSeconds=1), "what a pod runs", id="grace"),
    pytest.param(WAITS, of(SET_FREE, spec__affinity=PINNED), "ties a pod to a node",
                 id="a node without devices"),
    pytest.param(WAITS, of(GIVEN, spec__affinity={"podAffinity": {"a": "b"}}), "affinity to pods",
                 id="affinity to pods"),
    pytest.param(WAITS, of(GIVEN, spec__affinity={"podAntiAffinity": {"a": "b"}}), "affinity to pods",
                 id="affinity against pods"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "why"), REFUSED_PODS)
def test_other_writes_to_pods_are_refused(old: Any, new: Any, why: str):
    (message,) = PODS.refusals(Review(old=old, new=new, resource="pods"))
    assert why in message


@pytest.mark.parametrize(
    ("operation", "subresource"),
    [("CREATE", ""), ("DELETE", ""), ("CREATE", "binding"), ("CONNECT", "exec"),
     ("UPDATE", "ephemeralcontainers"), ("UPDATE", "resize")],
)  # fmt: skip
def test_nothing_else_is_done_to_pods(operation: str, subresource: str):
    review = Review(operation, old=WAITS, new=SET_FREE, resource="pods", subresource=subresource)
    (message,) = PODS.refusals(review)
    assert "only updates pods" in message


def test_room_is_held_for_gated_pods_and_evictions_are_left_to_rbac():
    hinted = of(WAITS, status={"nominatedNodeName": "n"})
    assert PODS.refusals(Review(old=WAITS, new=hinted, resource="pods", subresource="status")) == []
    assert PODS.refusals(Review("CREATE", new={}, resource="pods", subresource="eviction")) == []


STARTED = {"name": "main", "ready": True, "restartCount": 0, "image": "i", "imageID": "i"}


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Failed"},
        {"conditions": [{"type": "Ready", "status": "True"}]},
        *({f"{kind}ontainerStatuses": [STARTED]} for kind in ("c", "initC", "ephemeralC")),
        {"resourceClaimStatuses": [{"name": "c0", "resourceClaimName": "other"}]},
        {"podIP": "10.0.0.1"},
        {"podIPs": [{"ip": "10.0.0.1"}]},
        {"hostIP": "10.0.0.1"},
        {"hostIPs": [{"ip": "10.0.0.1"}]},
        {"reason": "Evicted"},
        {"message": "gone"},
        {"startTime": "2026-01-01T00:00:00Z"},
        {"qosClass": "Guaranteed"},
    ],
    ids=lambda status: next(iter(status)),
)
def test_no_other_status_of_a_pod_is_changed(status: Any):
    changed = of(WAITS, status={"nominatedNodeName": "n", **status})
    (message,) = PODS.refusals(Review(old=WAITS, new=changed, resource="pods", subresource="status"))
    assert "no status of a pod but" in message


def test_every_rule_refuses_something_that_no_other_does():
    told = {case.values[-1] for case in (*REFUSED_CLAIMS, *REFUSED_PODS)}
    told |= {"only updates pods", "no status of a pod but"}
    for policy in (CLAIMS, PODS):
        for rule in policy.spec["validations"]:
            assert any(str(why) in rule["message"] for why in told), rule["message"]


LABELLED = {"dra-reconciler.io/gate-pods": "true"}
BARE = of(pod("p", "c"), spec__schedulingGates=None)


def gates(of_pod: Any, labels: dict[str, str]) -> list[str]:
    made = GATING.mutated(Review("CREATE", new=of_pod, resource="pods", labels=labels))
    return [gate["name"] for gate in made["spec"].get("schedulingGates", ())]


@pytest.mark.parametrize(
    ("given", "labels", "wanted"),
    [
        pytest.param(BARE, LABELLED, [GATE], id="a pod with a claim"),
        pytest.param(
            of(BARE, spec__schedulingGates=[{"name": "a"}]), LABELLED, ["a", GATE], id="another gate"
        ),
        pytest.param(pod("p", "c"), LABELLED, [GATE], id="our gate already"),
        pytest.param(BARE, {}, [], id="a namespace without the label"),
        pytest.param(BARE, {"dra-reconciler.io/gate-pods": "false"}, [], id="a namespace that says no"),
        pytest.param(of(BARE, spec__resourceClaims=None), LABELLED, [], id="a pod without claims"),
        pytest.param(of(BARE, spec__resourceClaims=[]), LABELLED, [], id="a pod with no claims"),
        pytest.param(of(BARE, spec__nodeName="n"), LABELLED, [], id="a pod that has a node"),
    ],
)
def test_pods_with_claims_in_labelled_namespaces_get_the_gate(given: Any, labels: Any, wanted: list[str]):
    assert gates(given, labels) == wanted


def test_a_pod_that_exists_gets_none():
    assert not GATING.matches(Review("UPDATE", old=BARE, new=BARE, resource="pods", labels=LABELLED))


ANNOUNCING = Policy(POLICIES["dra-reconciler-announce-claims"])
ANNOUNCED_THERE = {"dra-reconciler.io/announce-claims": "true"}
ANNOUNCED_METADATA = {"finalizers": [FINALIZER], "annotations": {ALLOCATED_AT: ANNOUNCED}}


@pytest.mark.parametrize(
    ("metadata", "labels", "wanted"),
    [
        pytest.param({}, ANNOUNCED_THERE, ANNOUNCED_METADATA, id="a claim"),
        pytest.param(
            {"finalizers": ["a"], "annotations": {"b": "c"}}, ANNOUNCED_THERE,
            {"finalizers": ["a", FINALIZER], "annotations": {"b": "c", ALLOCATED_AT: ANNOUNCED}},
            id="beside what it has",
        ),
        pytest.param(
            {"finalizers": [FINALIZER]}, ANNOUNCED_THERE, {"finalizers": [FINALIZER]},
            id="one that kube-scheduler creates and allocates",
        ),
        pytest.param({}, {}, {}, id="a namespace without the label"),
        pytest.param({}, LABELLED, {}, id="a namespace with another label of ours"),
    ],
)  # fmt: skip
def test_claims_in_labelled_namespaces_are_announced(metadata: Any, labels: Any, wanted: Any):
    given = of(NOBODYS, **{f"metadata__{key}": value for key, value in metadata.items()})
    made = ANNOUNCING.mutated(Review("CREATE", new=given, labels=labels))
    assert made == of(NOBODYS, **{f"metadata__{key}": value for key, value in wanted.items()})


def test_a_claim_that_exists_is_not_announced():
    assert not ANNOUNCING.matches(Review("UPDATE", old=OURS, new=OURS, labels=ANNOUNCED_THERE))


def test_an_announced_claim_is_ours_to_allocate():
    claimed = of(NOBODYS, **{f"metadata__{key}": value for key, value in ANNOUNCED_METADATA.items()})
    given = of(claimed, status={"allocation": ALLOCATION})
    assert CLAIMS.refusals(Review(old=claimed, new=given, subresource="status")) == []


def event(controller: str = "dra-reconciler.io/reconciler", kind: str = "ResourceClaim", **more: Any) -> Any:
    return {
        "metadata": {"name": "e"}, "reportingController": controller, "regarding": {"kind": kind},
        "type": "Warning", **more,
    }  # fmt: skip


def lease(name: str = "dra-reconciler", **notes: str) -> Any:
    return {
        "metadata": {"name": name, "annotations": {f"dra-reconciler.io/{key}": notes[key] for key in notes}}
    }


@pytest.mark.parametrize(
    ("operation", "old", "new", "why"),
    [
        pytest.param("CREATE", None, event(), "", id="about a claim"),
        pytest.param("CREATE", None, event(kind="ResourceSlice"), "", id="about a slice"),
        pytest.param("UPDATE", event(), event(series={"count": 2}), "", id="once more"),
        pytest.param("CREATE", None, event("kubelet"), "in its own name", id="in another's name"),
        pytest.param("UPDATE", event("kubelet"), event(), "in its own name", id="another's"),
        pytest.param("CREATE", None, event(kind="Node"), "and about nothing else", id="about a node"),
        pytest.param("CREATE", None, event(type="Normal", reason="Allocated"), "", id="allocated"),
        pytest.param("CREATE", None, event(kind="Pod", type="Normal", reason="Ungated"), "", id="ungated"),
        *[
            pytest.param("CREATE", None, event(kind="Pod", type="Normal", reason=reason), "", id=reason)
            for reason in (PREEMPTED, MOVED, MOVES_DROPPED)
        ],
        pytest.param("CREATE", None, event(type="Normal", reason="Scheduled"), "or a pod was", id="normal"),
        pytest.param("CREATE", None, event(type="Odd", reason="Ungated"), "or a pod was", id="odd"),
        pytest.param("DELETE", event(), None, "deletes no Events", id="delete"),
    ],
)
def test_events_are_our_own_about_what_we_warn_of_or_did(operation: str, old: Any, new: Any, why: str):
    found = EVENTS.refusals(Review(operation, old=old, new=new, resource="events"))
    assert any(why in one for one in found) if why else found == []


@pytest.mark.parametrize(
    ("operation", "old", "new", "why"),
    [
        pytest.param("CREATE", None, lease(shard=""), "", id="ours"),
        pytest.param("UPDATE", lease(shard=""), lease(shard="", wait="1"), "", id="renew"),
        pytest.param("CREATE", None, lease("dra-reconciler-0a", shard="driver=a"), "", id="of a shard"),
        pytest.param(
            "UPDATE", lease("scheduler"), lease("scheduler", shard=""), "not one of", id="another's"
        ),
        pytest.param("UPDATE", lease(shard=""), lease(), "of which shard", id="without its shard"),
        pytest.param("DELETE", lease(shard=""), None, "deletes no Leases", id="delete"),
    ],
)
def test_leases_are_our_own(operation: str, old: Any, new: Any, why: str):
    found = LEASES.refusals(Review(operation, old=old, new=new, resource="leases"))
    assert any(why in one for one in found) if why else found == []


def test_without_the_rule_on_whose_it_is_any_claim_may_be_allocated_but_no_more():
    """As claims.yaml says for --all-claims."""
    policy = deepcopy(POLICIES["dra-reconciler-claims"])
    rules = policy["spec"]["validations"]
    (first,) = [one for one in rules if "not the reconciler's" in one["message"]]
    assert rules.index(first) == 1
    rules.remove(first)
    every = Policy(policy)
    assert every.refusals(Review(old=NOBODYS, new=of(NOBODYS, metadata__finalizers=[FINALIZER]))) == []
    assert every.refusals(Review(old=NOBODYS, new=of(NOBODYS, spec={})))
