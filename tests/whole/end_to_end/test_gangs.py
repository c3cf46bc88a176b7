"""Gangs on a server: all claims and nodes first, then all gates; never half."""

from typing import Any

import pytest

from reconciler.api.objects.gangs import SEAT
from reconciler.api.validation.kinds import GroupVersion, ServedKind
from reconciler.api.validation.served_kinds import POD, POD_GROUP
from reconciler.api.versions.kinds import KINDS
from reconciler.control.decisions.allocating import Ungated, Waits
from reconciler.control.decisions.every import GangGivenBack, GangPlaced
from reconciler.control.gangs.search import GangSearch
from tests.tools.faulty_transport import Held, answer
from tests.tools.gangs import annotated, coscheduling_group, grouped, labelled, pod_group
from tests.tools.running_reconciler import Cluster, Running, reconciling
from tests.tools.small_fleet import DRIVER, Object, claim, device_class, devices, held, node, pod, template

SWITCH = "switch.example.com"
SLOW: dict[str, Any] = {"backoff_base_seconds": 600.0, "backoff_cap_seconds": 600.0, "drain_seconds": 0.05}


def fleet(*racks: str, each: int = 1) -> Cluster:
    """Nodes n0, n1 and so on in these racks."""
    return Cluster(machines(*racks, each=each))


def machines(*racks: str, each: int = 1) -> list[Object]:
    names = [f"gpu-{number}" for number in range(each)]
    nodes = [node(f"n{number}", rack=rack) for number, rack in enumerate(racks)]
    return [device_class(), *nodes, *(devices(f"n{number}", *names) for number in range(len(racks)))]


def set_minimum(cluster: Cluster, least: int) -> None:
    """Change minCount of the PodGroup g."""
    policy = {"schedulingPolicy": {"gang": {"minCount": least}}}
    cluster.api.update(POD_GROUP, "default", "g", lambda group: {**group, "spec": policy})


def last_reason(running: Running) -> tuple[str, str]:
    found = running.of(Waits)[-1]
    return found.reason, found.message


async def test_all_claims_are_written_before_the_first_gate_is_removed():
    cluster = fleet("a", "a")
    cluster.load(claim("c0"), claim("c1"))
    second = Held()
    async with reconciling(cluster, prepare=lambda f: f.on("PATCH", "/c1/status", second), **SLOW) as running:
        cluster.load(annotated("p0", "c0", size=2), annotated("p1", "c1", size=2))
        await second.arrived.wait()
        assert cluster.devices("c0")
        assert cluster.gated("p0")
        assert cluster.gated("p1")
        second.go.set()
        await running.heard(Ungated, 2)
        (placed,) = running.of(GangPlaced)
    assert not cluster.gated("p0")
    assert not cluster.gated("p1")
    assert cluster.claim("c0")["metadata"]["annotations"][SEAT] == "annotation/g 2 n0"
    assert (str(placed.gang), placed.size, placed.on) == ("default/g", 2, ("n0", "n1"))


async def test_a_long_search_runs_beside_the_loop(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(GangSearch, "quick_steps", 0)
    cluster = fleet("a", "a")
    cluster.load(claim("c0"), claim("c1"))
    async with reconciling(cluster, **SLOW) as running:
        cluster.load(annotated("p0", "c0", size=2), annotated("p1", "c1", size=2))
        await running.heard(Ungated, 2)
        (placed,) = running.of(GangPlaced)
    assert placed.on == ("n0", "n1")


async def test_a_gang_that_does_not_fit_holds_nothing_and_blocks_nobody():
    cluster = fleet("a", "a")
    cluster.load(*(claim(f"c{n}") for n in range(3)))
    cluster.load(*(annotated(f"p{n}", f"c{n}", size=3) for n in range(3)))
    async with reconciling(cluster, **SLOW) as running:
        await running.heard(Waits)
        reason, message = last_reason(running)
        assert reason == "DevicesInUse" or message.startswith("2 of 3 pods fit together")
        assert not any(cluster.devices(f"c{n}") for n in range(3))
        cluster.load(claim("single"), pod("alone", "single"))
        await cluster.until(lambda: not cluster.gated("alone"))
        cluster.load(node("n9", rack="a"), devices("n9", "gpu-0", "gpu-1"))
        await running.heard(GangPlaced)
        await running.heard(Ungated, 4)


async def test_pods_of_a_pod_group_run_together_and_share_its_claim():
    """The claim is made for the group; its user is the group, and its end frees the devices."""
    cluster = fleet("a", each=1)
    async with reconciling(cluster, controllers=True, **SLOW) as running:
        cluster.load(template("t"), grouped("p0", templates=("t",)), grouped("p1", templates=("t",)))
        cluster.load(pod_group(claim="t"))
        await running.heard(Ungated, 2)
        await cluster.until(lambda: all(cluster.phase(name) == "Running" for name in ("p0", "p1")))
        (found,) = cluster.claims()
        (user,) = found["status"]["reservedFor"]
        assert (user["apiGroup"], user["resource"], user["name"]) == ("scheduling.k8s.io", "podgroups", "g")
        for name in ("p0", "p1"):
            cluster.api.delete(POD, "default", name)
        cluster.load(claim("next"))
        await cluster.until(lambda: running.waits("next"))
        cluster.api.delete(POD_GROUP, "default", "g")
        await cluster.until(lambda: cluster.devices("next"))


@pytest.mark.parametrize("version", KINDS["PodGroup"].versions)
async def test_a_minimum_that_falls_lets_a_gang_run_and_one_that_grows_takes_nothing_back(version: str):
    """In the only version that the server has: 1.36 has v1alpha2, 1.37 the others."""

    def serves(kind: ServedKind, served: GroupVersion) -> bool:
        return kind is not POD_GROUP or served.version == version

    release = 36 if version == "v1alpha2" else 37
    cluster = Cluster(machines("a", "a"), serves=serves, release=release)
    cluster.load(claim("c0"), claim("c1"), grouped("p0", "c0"), grouped("p1", "c1"))
    cluster.load(pod_group(least=3) | {"apiVersion": f"scheduling.k8s.io/{version}"})
    async with reconciling(cluster, **SLOW) as running:
        await cluster.until(lambda: "GangIncomplete" in running.waits("c0"))
        set_minimum(cluster, 2)
        await running.heard(Ungated, 2)
        set_minimum(cluster, 4)
        cluster.load(node("n9", rack="a"), devices("n9", "gpu-0", "gpu-1"))
        cluster.load(claim("c2"), grouped("p2", "c2"))
        await cluster.until(lambda: "GangIncomplete" in running.waits("c2"))
        cluster.load(claim("c3"), grouped("p3", "c3"))
        await running.heard(Ungated, 4)
        assert not running.of(GangGivenBack)


async def test_a_group_that_does_not_exist_is_waited_for():
    cluster = fleet("a", "a")
    cluster.load(claim("c0"), claim("c1"), labelled("p0", "c0"), labelled("p1", "c1"))
    async with reconciling(cluster, **SLOW) as running:
        await cluster.until(lambda: "GangNotFound" in running.waits("c0"))
        cluster.load(coscheduling_group())
        await running.heard(Ungated, 2)


async def test_members_without_claims_are_pinned_to_their_node():
    """Nothing else keeps kube-scheduler from placing them outside the domain."""
    cluster = fleet("a", "b")
    cluster.load(claim("c0"))
    async with reconciling(cluster, **SLOW) as running:
        cluster.load(annotated("p0", "c0", size=2, topology="rack"), annotated("p1", size=2, topology="rack"))
        await running.heard(Ungated, 2)
    (term,) = cluster.pod("p1")["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"]
    (on,) = term["matchFields"]
    assert on["values"] == [cluster.devices("c0")[0].partition("/")[0]]
    assert "affinity" not in cluster.pod("p0")["spec"]


async def test_members_of_a_group_with_a_topology_are_pinned_to_their_node():
    """kube-scheduler tries the group in each rack, and would take the devices away in all but one."""
    cluster = fleet("a", "b")
    cluster.load(claim("c0"), grouped("p0", "c0"), pod_group(least=1, topology="rack"))
    async with reconciling(cluster, **SLOW) as running:
        await running.heard(Ungated)
    required = cluster.pod("p0")["spec"]["affinity"]["nodeAffinity"]
    (term,) = required["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]


async def test_a_late_member_joins_the_domain_of_the_others():
    cluster = fleet("a", "b", "b", each=2)
    cluster.load(*(claim(f"c{n}", managed=False) for n in range(1, 4)), claim("wide", 2, managed=False))
    async with reconciling(cluster, **SLOW) as running:
        cluster.load(
            annotated("p0", "wide", size=2, topology="rack"), annotated("p1", "c1", size=2, topology="rack")
        )
        await running.heard(Ungated, 2)
        cluster.load(annotated("p2", "c2", size=2, topology="rack"))
        await running.heard(Ungated, 3)
        cluster.load(annotated("p3", "c3", size=2, topology="rack"))
        await cluster.until(lambda: running.waits("c3"))
    assert {cluster.devices(name)[0][:2] for name in ("wide", "c1", "c2")} == {"n1", "n2"}
    assert cluster.devices("c3") == []


async def test_a_member_whose_claim_is_allocated_outside_the_domain_stays_gated():
    cluster = fleet("a", "b", each=2)
    outside = {**claim("c2", managed=False), "status": held(DRIVER, "n1", "gpu-0", on="n1")}
    cluster.load(claim("c0", managed=False), claim("c1", managed=False), outside)
    first, second, last = (annotated(f"p{n}", f"c{n}", size=2, topology="rack") for n in range(3))
    async with reconciling(cluster, **SLOW) as running:
        cluster.load(first, second)
        await running.heard(Ungated, 2)
        cluster.load(last)
        await cluster.until(lambda: running.of(Waits))
    assert cluster.gated("p2")
    assert cluster.devices("c2") == ["n1/gpu-0"]


async def test_a_rejected_claim_gives_back_the_others():
    cluster = fleet("a", "a")
    cluster.load(claim("c0"), claim("c1"))
    async with reconciling(
        cluster, prepare=lambda f: f.on("PATCH", "/c1/status", answer(422)), **SLOW
    ) as running:
        cluster.load(annotated("p0", "c0", size=2), annotated("p1", "c1", size=2))
        await cluster.until(lambda: cluster.devices("c0"))
        await cluster.until(lambda: not cluster.devices("c0"))
        assert running.of(Ungated) == []


async def test_a_successor_completes_what_was_begun():
    cluster = fleet("a", "a")
    cluster.load(claim("c0"), claim("c1"))
    async with reconciling(cluster, prepare=lambda f: f.on("PATCH", "/c1", Held()), **SLOW):
        cluster.load(annotated("p0", "c0", size=2), annotated("p1", "c1", size=2))
        await cluster.until(lambda: cluster.devices("c0"))
    assert cluster.devices("c1") == []
    async with reconciling(cluster, write_seconds=1.0, **SLOW) as running:
        await running.heard(Ungated, 2)
    assert cluster.devices("c1")


async def test_a_give_back_that_a_predecessor_sent_gets_a_conflict_if_it_arrives_late():
    """It was sent before the missing pod came. It names the version of the claim that it was decided from."""
    cluster, sent = fleet("a", "a"), Held()
    cluster.load(claim("c0"), claim("c1", managed=False))
    slow = {"write_seconds": 1.0, **SLOW}
    async with reconciling(cluster, prepare=lambda f: f.on("PATCH", "/c1", Held()), **slow):
        cluster.load(annotated("p0", "c0", size=2), annotated("p1", "c1", size=2))
        await cluster.until(lambda: cluster.devices("c0"))
    cluster.api.delete(POD, "default", "p1")
    async with reconciling(cluster, prepare=lambda f: f.on("PATCH", "/c0/status", sent), **slow):
        await sent.arrived.wait()
        named = cluster.claim("c0")["metadata"]["resourceVersion"]
    cluster.load(annotated("p1", "c1", size=2))
    async with reconciling(cluster, **slow) as running:
        await running.heard(Ungated, 2)
        assert cluster.devices("c0")
        assert cluster.claim("c0")["metadata"]["resourceVersion"] != named


async def test_a_successor_gives_back_what_cannot_be_completed():
    cluster = fleet("a", "a")
    cluster.load(claim("c0"), claim("c1"))
    async with reconciling(cluster, prepare=lambda f: f.on("PATCH", "/c1", Held()), **SLOW):
        cluster.load(annotated("p0", "c0", size=2), annotated("p1", "c1", size=2))
        await cluster.until(lambda: cluster.devices("c0"))
    cluster.api.delete(POD, "default", "p1")
    async with reconciling(cluster, write_seconds=1.0, **SLOW) as running:
        await running.heard(GangGivenBack)
        await cluster.until(lambda: cluster.devices("c0") == [])
        await running.heard(Waits)
        assert last_reason(running)[0] == "GangIncomplete"
    assert SEAT not in cluster.claim("c0")["metadata"].get("annotations", {})


async def test_a_successor_gives_back_what_a_pod_holds_apart_from_the_others():
    """Rack b has room for all but the first pod, whose seat in rack a the predecessor wrote; then a shared
    claim would complete the first pod outside the rack of the others.
    """
    cluster = fleet("a", "b", "b")
    shared = devices("n0", "d", driver=SWITCH)
    del shared["spec"]["nodeName"]
    shared["spec"]["allNodes"] = True
    cluster.load(shared, device_class("switch", SWITCH), claim("all", device_class="switch"))
    cluster.load(*(claim(f"c{n}", managed=False) for n in range(3)))
    async with reconciling(cluster, prepare=lambda f: f.on("PATCH", "/all", Held()), **SLOW):
        cluster.load(annotated("p0", "c0", "all", size=1, topology="rack"))
        await cluster.until(lambda: cluster.devices("c0"))
    assert cluster.devices("c0") == ["n0/gpu-0"]
    cluster.api.delete(POD, "default", "p0")
    cluster.load(*(annotated(f"p{n}", f"c{n}", "all", size=2, topology="rack") for n in range(3)))
    async with reconciling(cluster, write_seconds=1.0, **SLOW) as running:
        await running.heard(Ungated, 2)
        (placed,) = running.of(GangPlaced)
    assert len(placed.on) == 2
    assert {name[:2] for n in range(3) for name in cluster.devices(f"c{n}")} == {"n1", "n2"}


async def test_a_successor_removes_the_remaining_gates():
    cluster = fleet("a", "a")
    cluster.load(claim("c0"), claim("c1"))
    async with reconciling(cluster, prepare=lambda f: f.on("PATCH", "/pods/p1", Held()), **SLOW) as running:
        cluster.load(annotated("p0", "c0", size=2), annotated("p1", "c1", size=2))
        await running.heard(Ungated)
    assert cluster.gated("p1")
    cluster.load(claim("other"))
    async with reconciling(cluster, write_seconds=1.0, **SLOW) as running:
        await running.heard(Ungated)
    assert not cluster.gated("p1")
