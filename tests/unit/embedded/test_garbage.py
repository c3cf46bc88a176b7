"""Deletion with dependents, of pods that need time to end, and of namespaces."""

import pytest

from reconciler.embedded import ApiServer, run_controllers
from reconciler.embedded.writing import MOST_GRACE
from tests.tools.driving import MERGE, PODS, call, node, ok, pod, refused, settle, take

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def api():
    server = ApiServer()
    ok(server, "POST", "/api/v1/nodes", node())
    async with run_controllers(server):
        yield server


def make(api, name, *owners, kind="ConfigMap", **reference):
    """A config map with owners, given as objects."""
    references = [
        {"apiVersion": "v1", "kind": kind, "name": of["metadata"]["name"], "uid": of["metadata"]["uid"]}
        | reference
        for of in owners
    ]
    return ok(api, "POST", MAPS, {"metadata": {"name": name, "ownerReferences": references}})


def names(api):
    return {one["metadata"]["name"] for one in ok(api, "GET", MAPS)["items"]}


@pytest.mark.parametrize("options", [None, {"propagationPolicy": "Background"}])
async def test_dependents_go_after_their_last_owner(api, options):
    first, second = make(api, "first"), make(api, "second")
    make(api, "below", make(api, "one", first))
    both = make(api, "both", first, second)
    ok(api, "DELETE", f"{MAPS}/first", options)
    await settle(api)
    assert names(api) == {"second", "both"}
    left = ok(api, "GET", f"{MAPS}/both")["metadata"]["ownerReferences"]
    assert left == both["metadata"]["ownerReferences"][1:]
    ok(api, "DELETE", f"{MAPS}/second", options)
    await settle(api)
    assert names(api) == set()


async def test_in_the_foreground_an_owner_waits_for_dependents_that_block_it(api):
    owner = make(api, "owner")
    make(api, "blocks", owner, blockOwnerDeletion=True)
    make(api, "slow", owner, blockOwnerDeletion=True)
    make(api, "free", owner)
    ok(api, "PATCH", f"{MAPS}/slow", {"metadata": {"finalizers": ["example.com/slow"]}}, media=MERGE)
    ok(api, "PATCH", f"{MAPS}/free", {"metadata": {"finalizers": ["example.com/free"]}}, media=MERGE)
    ok(api, "DELETE", f"{MAPS}/owner", {"propagationPolicy": "Foreground"})
    await settle(api)
    assert names(api) == {"owner", "slow", "free"}
    assert ok(api, "GET", f"{MAPS}/owner")["metadata"]["finalizers"] == ["foregroundDeletion"]
    ok(api, "PATCH", f"{MAPS}/slow", {"metadata": {"finalizers": None}}, media=MERGE)
    await settle(api)
    assert names(api) == {"free"}


async def test_in_the_foreground_a_dependent_with_another_owner_stays(api):
    owner, other = make(api, "owner"), make(api, "other")
    make(api, "both", owner, other, blockOwnerDeletion=True)
    elsewhere = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u"}
    shared = make(api, "shared", owner)["metadata"]["ownerReferences"]
    patch = {"metadata": {"ownerReferences": [*shared, elsewhere]}}
    ok(api, "PATCH", f"{MAPS}/shared", patch, media=MERGE)
    ok(api, "DELETE", f"{MAPS}/owner", {"propagationPolicy": "Foreground"})
    await settle(api)
    assert names(api) == {"other", "both", "shared"}
    (left,) = ok(api, "GET", f"{MAPS}/both")["metadata"]["ownerReferences"]
    assert left["name"] == "other"
    # Nothing is done for what has an owner of an unknown kind.
    assert ok(api, "GET", f"{MAPS}/shared")["metadata"]["ownerReferences"] == [*shared, elsewhere]


async def test_a_node_is_no_dependent_of_an_object_in_a_namespace(api):
    reference = make(api, "a", make(api, "owner"))["metadata"]["ownerReferences"]
    made = {**node("n"), "metadata": {"name": "n", "ownerReferences": reference}}
    ok(api, "POST", "/api/v1/nodes", made)
    ok(api, "DELETE", f"{MAPS}/owner")
    await settle(api)
    assert ok(api, "GET", "/api/v1/nodes/n")["metadata"]["ownerReferences"] == reference


async def test_a_cycle_of_owners_goes_in_the_foreground(api):
    first = make(api, "first")
    last = make(api, "last", make(api, "middle", first, blockOwnerDeletion=True), blockOwnerDeletion=True)
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "last", "uid": last["metadata"]["uid"]}
    closed = {"metadata": {"ownerReferences": [{**reference, "blockOwnerDeletion": True}]}}
    ok(api, "PATCH", f"{MAPS}/first", closed, media=MERGE)
    ok(api, "DELETE", f"{MAPS}/first", {"propagationPolicy": "Foreground"})
    await settle(api)
    assert names(api) == set()


async def test_the_finalizer_of_a_dependent_decides_what_becomes_of_its_own_dependents(api):
    owner = make(api, "owner")
    make(api, "below", make(api, "middle", owner))
    ok(api, "PATCH", f"{MAPS}/middle", {"metadata": {"finalizers": ["orphan"]}}, media=MERGE)
    ok(api, "DELETE", f"{MAPS}/owner")
    await settle(api)
    assert names(api) == {"below"}


async def test_a_second_deletion_can_choose_another_policy(api):
    held = make(api, "held", make(api, "owner"), blockOwnerDeletion=True)
    patch = {"metadata": {"finalizers": ["example.com/slow"]}}
    ok(api, "PATCH", f"{MAPS}/held", patch, media=MERGE)
    marked = ok(api, "DELETE", f"{MAPS}/owner", {"propagationPolicy": "Foreground"})
    await settle(api)
    again = ok(api, "DELETE", f"{MAPS}/owner", {"propagationPolicy": "Orphan"})
    assert again["metadata"]["deletionTimestamp"] == marked["metadata"]["deletionTimestamp"]
    await settle(api)
    assert names(api) == {"held"}
    assert held["metadata"]["ownerReferences"]
    assert "ownerReferences" not in ok(api, "GET", f"{MAPS}/held")["metadata"]


async def test_a_dependent_that_is_made_while_its_owner_waits_goes_too(api):
    owner = make(api, "owner")
    make(api, "slow", owner, blockOwnerDeletion=True)
    ok(api, "PATCH", f"{MAPS}/slow", {"metadata": {"finalizers": ["example.com/slow"]}}, media=MERGE)
    ok(api, "DELETE", f"{MAPS}/owner", {"propagationPolicy": "Foreground"})
    make(api, "late", owner)
    await settle(api)
    assert names(api) == {"owner", "slow"}


async def test_orphans_stay_without_owners(api):
    make(api, "child", make(api, "owner"))
    ok(api, "DELETE", f"{MAPS}/owner", {"propagationPolicy": "Orphan"})
    await settle(api)
    assert names(api) == {"child"}
    assert "ownerReferences" not in ok(api, "GET", f"{MAPS}/child")["metadata"]


async def test_an_object_whose_owner_was_never_there_goes_unless_the_owner_may_be_elsewhere(api):
    stranger = {"metadata": {"name": "x", "uid": "u"}}
    make(api, "goes", stranger)
    make(api, "stays", stranger, kind="ReplicaSet", apiVersion="apps/v1")
    await settle(api)
    assert names(api) == {"stays"}


async def test_a_running_pod_terminates_before_it_goes(api):
    ok(api, "POST", PODS, pod())
    await settle(api)
    start = str(api.store.version)
    answer = ok(api, "DELETE", f"{PODS}/p")["metadata"]
    assert answer["deletionGracePeriodSeconds"] == 30
    assert "deletionTimestamp" in ok(api, "GET", f"{PODS}/p")["metadata"]
    await settle(api)
    assert call(api, "GET", f"{PODS}/p")[0] == 404
    assert await take(api, 2, PODS, resourceVersion=start) == [("MODIFIED", "p"), ("DELETED", "p")]


@pytest.mark.parametrize(("asked", "given"), [(5, 5), (-5, 1), (10**15, MOST_GRACE), (10**25, MOST_GRACE)])
def test_seconds_to_end_are_limited(asked, given):
    api = ApiServer()
    api.writer.has_kubelets = True
    ok(api, "POST", PODS, pod(nodeName="n"))
    found = ok(api, "DELETE", f"{PODS}/p", {"gracePeriodSeconds": asked})["metadata"]
    assert found["deletionGracePeriodSeconds"] == given


async def test_a_pod_without_a_node_or_grace_goes_at_once(api):
    ok(api, "POST", PODS, pod("gated", schedulingGates=[{"name": "a.b/c"}]))
    ok(api, "DELETE", f"{PODS}/gated")
    assert call(api, "GET", f"{PODS}/gated")[0] == 404
    ok(api, "POST", PODS, pod())
    await settle(api)
    ok(api, "DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
    assert call(api, "GET", f"{PODS}/p")[0] == 404


async def test_a_namespace_waits_for_its_pods_and_takes_nothing_new(api):
    ok(api, "POST", PODS, pod())
    await settle(api)
    ok(api, "DELETE", "/api/v1/namespaces/default")
    assert ok(api, "GET", "/api/v1/namespaces/default")["status"]["phase"] == "Terminating"
    assert refused(api, "POST", MAPS, {"metadata": {"name": "m"}}) == (403, "Forbidden")
    await settle(api)
    assert call(api, "GET", "/api/v1/namespaces/default")[0] == 404


async def test_what_an_owner_lacks_is_shown_as_an_empty_text(api):
    made = {"metadata": {"name": "a", "ownerReferences": [{"kind": "Pod", "uid": None}]}}
    code, found = call(api, "POST", MAPS, made)
    version, *others = [cause["message"] for cause in found["details"]["causes"]]
    assert (code, version) == (422, 'Invalid value: "": version must not be empty')
    assert others == ['Invalid value: "": must not be empty'] * 2
