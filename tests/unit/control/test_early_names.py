"""Claims of gated pods are known before the pods name them, and whatever the pods say counts for more."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from reconciler.api.migrate.pods import Template, template_named
from reconciler.api.migrate.special_claims import Wanted, mapping, mig
from reconciler.api.objects.changes import Replaced
from reconciler.api.objects.claims import POD_CLAIM
from reconciler.api.objects.core import GATE
from reconciler.api.objects.gangs import GANG
from reconciler.api.validation.served_kinds import TEMPLATE
from reconciler.control import template_maker
from reconciler.control.decisions.allocating import Ungated
from reconciler.control.intake import Intake
from tests.tools.examples import seeds
from tests.tools.faulty_transport import Faulty, answer
from tests.tools.running_reconciler import SETTLED, Cluster, reconciling
from tests.tools.small_fleet import Object, claim, device_class, devices, node, pod, template
from tests.tools.unit_pictures import intake, key, pod_unit, put, remove, taken, typed


def made(name: str, owner: str = "p", entry: str = "t0", **metadata: Any) -> dict[str, Any]:
    """A claim as kube-controller-manager makes it from a template."""
    raw = claim(name, managed=False)
    reference = {
        "apiVersion": "v1", "kind": "Pod", "name": owner, "uid": f"uid of {owner}", "controller": True
    }  # fmt: skip
    raw["metadata"] |= {"annotations": {POD_CLAIM: entry}, "ownerReferences": [reference], **metadata}
    return raw


def naming(name: str, *claims: str) -> dict[str, Any]:
    """A pod whose status names the claims of its templates."""
    statuses = [{"name": f"t{at}", "resourceClaimName": one} for at, one in enumerate(claims)]
    return {**pod(name, templates=("t",) * len(claims)), "status": {"resourceClaimStatuses": statuses}}


def names(picture: Intake, name: str = "p") -> list[str | None]:
    return list(picture.store.pods[key(name)].claim_names().values())


async def test_the_pod_is_requeued_and_supposed_no_more_when_it_names_the_claim():
    picture = intake(pod("p", templates=("t",)), made("a"))
    async with picture.queue.take(), picture.queue.take():
        pass
    put(picture, naming("p", "a"))
    assert not picture.early.supposes(key("p"))
    assert names(picture) == ["a"]
    assert await taken(picture) == [pod_unit("p")]


@pytest.mark.parametrize(
    "other",
    [
        pod("p", templates=("t",), gates=()),
        {**pod("p", templates=("t",)), "metadata": {**pod("p")["metadata"], "annotations": {GANG: "g"}}},
        {**pod("p", templates=("t",)), "metadata": {**pod("p")["metadata"], "uid": "another"}},
    ],
    ids=["not gated", "of a gang", "another pod of that name"],
)
async def test_pods_that_are_not_decided_alone_before_binding_are_left(other: dict[str, Any]):
    picture = intake(other, made("a"))
    assert names(picture) == [None]
    assert not picture.early.supposes(key("p"))


@pytest.mark.parametrize(
    "no_claim_of_it",
    [
        made("a", annotations={}),
        made("a", ownerReferences=[]),
        made("a", entry="t7"),
        made("a", deletionTimestamp="2026-01-01T00:00:00Z"),
        {**made("a"), "status": {"reservedFor": [{"resource": "pods", "name": "q", "uid": "q"}]}},
    ],
    ids=["no entry", "no owner", "unknown entry", "deleted", "reserved"],
)
async def test_other_claims_are_not_named(no_claim_of_it: dict[str, Any]):
    assert names(intake(pod("p", templates=("t",)), no_claim_of_it)) == [None]


class Twin:
    """All that the server has, from which the names are worked out anew each time."""

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.claims: dict[str, dict[str, Any]] = {}

    def names(self, name: str) -> list[str | None]:
        found = []
        raw = self.pods[name]
        told = {one["name"]: one["resourceClaimName"] for one in raw["status"]["resourceClaimStatuses"]}
        for at in range(len(raw["spec"]["resourceClaims"])):
            mine = [claim for claim in self.claims if self._is_of(claim, name, f"t{at}")]
            early = mine[0] if len(mine) == 1 and raw["spec"]["schedulingGates"] else None
            found.append(told.get(f"t{at}") or early)
        return found

    def _is_of(self, claim: str, owner: str, entry: str) -> bool:
        raw = self.claims[claim]
        of = raw["metadata"]["ownerReferences"][0]["name"] == owner
        reserved = bool(raw.get("status", {}).get("reservedFor"))
        return of and not reserved and raw["metadata"]["annotations"][POD_CLAIM] == entry


@pytest.mark.parametrize("seed", seeds(40))
async def test_after_any_events_the_names_are_those_worked_out_anew(seed: int):
    dice, twin, picture = Random(seed), Twin(), intake()
    for _ in range(40):
        name, other = dice.choice("pq"), f"{dice.choice('pq')}-{dice.randrange(3)}"
        match dice.randrange(6):
            case 0 | 1:
                told = dice.sample([f"{name}-{n}" for n in range(3)], dice.randrange(3))
                raw = naming(name, *told)
                raw["spec"] = pod(name, templates=("t", "t"), gates=dice.choice([(GATE,), (GATE,), ()]))[
                    "spec"
                ]
                twin.pods[name] = raw
                put(picture, raw)
            case 2 | 3:
                twin.claims[other] = made(other, other[0], f"t{dice.randrange(2)}")
                if dice.random() < 0.2:
                    user = {"resource": "pods", "name": "p", "uid": "p"}
                    twin.claims[other]["status"] = {"reservedFor": [user]}
                put(picture, twin.claims[other])
            case 4:
                twin.claims.pop(other, None)
                remove(picture, "ResourceClaim", other)
            case _:
                kind, left = dice.choice([("Pod", twin.pods), ("ResourceClaim", twin.claims)])
                for gone in dice.sample(sorted(left), len(left) // 2):
                    del left[gone]
                picture.take(Replaced(kind, tuple(typed(raw) for raw in left.values()), ()))
        for known in twin.pods:
            assert names(picture, known) == twin.names(known)
            supposed = twin.names(known) != names_told(twin.pods[known])
            assert picture.early.supposes(key(known)) == supposed


def names_told(raw: dict[str, Any]) -> list[str | None]:
    """The names that the status of a pod has."""
    told = {one["name"]: one["resourceClaimName"] for one in raw["status"]["resourceClaimStatuses"]}
    return [told.get(f"t{at}") for at in range(len(raw["spec"]["resourceClaims"]))]


# -- Templates that rewritten pods name are made by name, where that is wanted, and never changed.


REWRITTEN = {"dra-reconciler.io/rewrite-resources": "true"}
MAPPED = mapping((), {"resources": {"x.com/half": {"class": "c", "selector": "true", "name": "half"}}})


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_maker, "EVERY", 0.01)


def namespace(**labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": labels}}


def cluster(*more: Object, labels: Any = REWRITTEN) -> Cluster:
    return Cluster([namespace(**labels), device_class(), node("a"), devices("a", "d0", "d1", "d2"), *more])


def templates(found: Cluster) -> dict[str, Any]:
    records = found.api.store[TEMPLATE].scan("")
    return {record.object["metadata"]["name"]: record.object for record in records}


async def test_a_pod_gets_the_template_that_it_names_and_with_it_its_devices():
    found = cluster()
    async with reconciling(found, controllers=True, make_templates=True) as running:
        found.load(pod("p", templates=("gpu-2",)))
        await running.heard(Ungated)
    (made,) = templates(found).values()
    assert made["spec"]["spec"]["devices"]["requests"][0]["exactly"] == {
        "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2
    }  # fmt: skip
    assert made["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "dra-reconciler"}
    (held,) = found.claims()
    assert len(held["status"]["allocation"]["devices"]["results"]) == 2


@pytest.mark.parametrize(
    ("labels", "name"),
    [({}, "gpu-2"), ({**REWRITTEN, **dict.fromkeys(REWRITTEN, "no")}, "gpu-2"), (REWRITTEN, "gpu"),
      (REWRITTEN, "gpu-0"), (REWRITTEN, "gpu-33"), (REWRITTEN, "gpu-02"), (REWRITTEN, "other-2")],
    ids=["no label", "label no", "no count", "none", "too many", "another spelling", "no such class"],
)  # fmt: skip
async def test_other_templates_are_not_made(labels: dict[str, str], name: str):
    """The pod beside it shows that all pods were looked at."""
    found = cluster(pod("a", templates=(name,)), labels=labels)
    async with reconciling(found, controllers=True, make_templates=True):
        await until_looked_at(found)
        assert templates(found).keys() <= {"gpu-1"}


async def test_without_the_setting_none_is_made():
    found = cluster(pod("a", templates=("gpu-2",)))
    async with reconciling(found, controllers=True) as running:
        found.load(pod("b", templates=("mine",)), template("mine"))
        await running.heard(Ungated)
    assert templates(found).keys() == {"mine"}


async def test_a_template_that_exists_is_left_as_it_is():
    """It asks for one device instead of two. Nothing is written, not even when its claims are late."""
    theirs = template("gpu-2", count=1)
    found = cluster(theirs, pod("a", templates=("gpu-2",)))
    before = templates(found)
    async with reconciling(found, make_templates=True):
        await until_looked_at(found)
    assert templates(found)["gpu-2"] == before["gpu-2"]


async def test_a_label_that_comes_later_and_a_refusal_that_passes_are_both_met():
    def prepare(faulty: Faulty) -> None:
        faulty.on("POST", "/resourceclaimtemplates", answer(403), answer(503))

    found = cluster(pod("a", templates=("gpu-2",)), labels={})
    async with reconciling(found, controllers=True, make_templates=True, prepare=prepare) as running:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(template_maker, "AGAIN", 0.02)
            found.load(namespace(**REWRITTEN))
            await running.heard(Ungated)
    assert running.faulty.faults == []


async def until_looked_at(found: Cluster) -> None:
    """Wait until a pod that comes now has its template, if the namespace gets one."""
    found.load(pod("later", templates=("gpu-1",)))
    await asyncio.sleep(SETTLED)


@pytest.mark.parametrize(
    ("name", "wanted", "count"),
    [
        ("gpu.nvidia.com-2", Wanted("gpu.nvidia.com"), 2),
        ("mig.nvidia.com-1g.5gb-3", mig("1g.5gb"), 3),
        ("half-32", Wanted("c", "true", "half"), 32),
        ("any-class-1", Wanted("any-class"), 1),
    ],
)  # fmt: skip
def test_a_name_says_class_selector_and_count(name: str, wanted: Wanted, count: int):
    found = template_named(name, MAPPED)
    assert found == Template(wanted, count)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("name", ["", "gpu", "-1", "gpu-", "gpu-0", "gpu-01", "gpu-33", "gpu-1x", "gpu-٣"])
def test_other_names_say_nothing(name: str):
    assert template_named(name, MAPPED) is None


async def test_a_mistake_in_the_map_stops_the_start(tmp_path: Path):
    path = tmp_path / "map.yaml"
    path.write_text("resources: {x.com/a: {clas: c}}")
    with pytest.raises(ExceptionGroup) as caught:
        async with reconciling(cluster(), make_templates=True, resource_map=path) as running:
            await running.done.wait()
    assert "resources[x.com/a]: needs a class" in str(leaves(caught.value)[0])


def leaves(group: BaseException) -> Sequence[BaseException]:
    if isinstance(group, BaseExceptionGroup):
        return [leaf for one in group.exceptions for leaf in leaves(one)]
    return [group]
