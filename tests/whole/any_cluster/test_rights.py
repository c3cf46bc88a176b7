"""What our account may do: by its roles, and by the policies that confine it to what is its own."""

import pytest

from reconciler.api.objects.claims import FINALIZER
from reconciler.api.objects.core import GATE
from reconciler.errors import Rejected
from tests.tools.any_cluster import lent_or_embedded
from tests.tools.any_policies import MUTATING, TEMPLATES, install, policed
from tests.tools.small_fleet import template

pytestmark = pytest.mark.loopback

DRA = "resource.k8s.io"
GRANTED = [
    ("list", "resourceslices", DRA), ("patch", "resourceclaims", DRA),
    ("patch", "resourceclaims/status", DRA), ("patch", "pods", ""), ("create", *TEMPLATES),
    ("patch", "leases", "coordination.k8s.io"),
]  # fmt: skip
NOT_GRANTED = [
    ("delete", "pods", ""), ("create", "pods", ""), ("create", "pods/eviction", ""),
    ("patch", "pods/status", ""), ("delete", "resourceclaims", DRA), ("update", "resourceslices", DRA),
    ("patch", *TEMPLATES), ("get", "secrets", ""), ("list", "configmaps", ""), ("patch", "nodes", ""),
    ("impersonate", "users", ""), ("bind", "clusterroles", "rbac.authorization.k8s.io"),
]  # fmt: skip


async def test_what_is_granted_is_allowed_and_nothing_else():
    async with lent_or_embedded() as found, policed(found) as ours:
        assert [one for one in GRANTED if not await ours.may(*one)] == []
        assert [one for one in NOT_GRANTED if await ours.may(*one)] == []


async def test_claims_that_are_ours_are_marked_and_nothing_else_is_done_to_them():
    async with lent_or_embedded() as found, policed(found) as ours:
        await found.claim("ours")

        async def label(attempt: int) -> None:
            await ours.patch("ResourceClaim", "ours", {"metadata": {"labels": {"a": f"b{attempt}"}}})

        assert "labels or owners" in await ours.refused(label)
        await ours.patch("ResourceClaim", "ours", {"metadata": {"finalizers": [FINALIZER]}})
        marked = await found.read("ResourceClaim", "ours")
        assert marked["metadata"]["finalizers"] == [FINALIZER]
        await ours.patch("ResourceClaim", "ours", {"metadata": {"finalizers": None}})


async def test_what_refuses_is_installed_without_what_changes_objects():
    """Servers before 1.36 have no kind for the latter."""
    async with lent_or_embedded() as found:
        kinds = {one["kind"] for one in await install(found)}
        assert {"ServiceAccount", "ClusterRole", "ValidatingAdmissionPolicyBinding"} <= kinds
        assert not any(kind.startswith(MUTATING) for kind in kinds)


async def test_pods_get_the_gate():
    async with lent_or_embedded() as found, policed(found, mutating=True):
        made = await found.pod("p", "ours", gates=())
        assert [gate["name"] for gate in made["spec"]["schedulingGates"]] == [GATE]


async def test_pods_lose_the_gate_and_keep_their_image():
    async with lent_or_embedded() as found, policed(found) as ours:
        made = await found.pod("p", "ours")
        assert [gate["name"] for gate in made["spec"]["schedulingGates"]] == [GATE]

        async def change_image(attempt: int) -> None:
            # A merge patch replaces the list: what the server has completed stays as it is.
            (main,) = made["spec"]["containers"]
            containers = [{**main, "image": f"example.com/other:{attempt}"}]
            await ours.patch("Pod", "p", {"spec": {"containers": containers}})

        assert f"{found.name}-pods" in await ours.refused(change_image)
        await ours.patch("Pod", "p", {"spec": {"schedulingGates": None}})
        left = await found.read("Pod", "p")
        assert not left["spec"].get("schedulingGates")


async def test_templates_are_made_in_labelled_namespaces_alone_and_none_is_changed():
    async with lent_or_embedded() as found, policed(found) as ours:
        made = template(f"{found.name}-2", 2)
        said = await ours.refused(lambda _: ours.tried(made, "default"))
        assert "is not labelled dra-reconciler.io/rewrite-resources=true" in said
        await ours.tried(made, found.name)
        await found.make(made)
        with pytest.raises(Rejected, match="cannot patch resource"):  # says the role
            await ours.patch("ResourceClaimTemplate", f"{found.name}-2", {"metadata": {"labels": {}}})
