"""Templates that rewritten pods name are made by name, where that is wanted, and never changed."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from reconciler.api.migrate.mapping import Wanted, mapping, mig
from reconciler.api.migrate.pods import Template, template_named
from reconciler.api.validation.served_kinds import TEMPLATE
from reconciler.control import template_maker
from reconciler.control.decisions.allocating import Ungated
from tests.tools.faulty_transport import Faulty, answer
from tests.tools.running_reconciler import SETTLED, Cluster, reconciling
from tests.tools.small_fleet import Object, device_class, devices, node, pod, template

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
