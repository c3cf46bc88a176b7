"""Koordinator's devices on the page, as a browser without scripts gets it."""

import re

import pytest

from reconciler.control.decisions.allocating import DevicesGiven, Waits
from reconciler.operations.page.query import Query
from reconciler.plugins.koordinator.figures import describe_machine
from reconciler.plugins.koordinator.fleet import Fleet
from reconciler.plugins.koordinator.page import rack as drawn
from reconciler.plugins.koordinator.vocabulary import Rules
from tests.tools import still_page
from tests.tools.koordinator_builders import device, gpu
from tests.tools.koordinator_cluster import KoordinatorCluster, machine, node, wants
from tests.tools.page_documents import Seen, page
from tests.tools.page_fleets import HOSTILE, LONG, QUOTES, TURNED
from tests.tools.page_racks import JOINT, fleet, give
from tests.tools.watched_reconciler import ask, watched

pytestmark = pytest.mark.loopback


async def shown(made: Fleet, path: str = "/") -> Seen:
    async with still_page.standing([], made) as served:
        answer = await ask(f"{served.url}{path}")
        assert answer.status == 200
        return Seen(answer.text)


def machines(found: Seen) -> list[str | None]:
    return [article["aria-label"] for article in found.all("article")]


async def test_each_machine_shows_free_held_and_unhealthy_devices():
    made = fleet()
    give(made, "joined", {"nvidia.com/gpu": 1, "rdma": 1}, **JOINT)
    give(made, "part", {"gpu-core": 30, "gpu-memory-ratio": 30})
    found = await shown(made)
    assert machines(found) == ["rack-0", "rack-1"]
    pictures = [str(svg["aria-label"]) for svg in found.all("svg", role="img") if svg.get("aria-label")]
    assert pictures == [
        "rack-0: 4 gpu: 1 held, 1 shared, 2 free; 2 rdma: 1 shared, 1 free, "
        "3 of 4 virtual functions free; 3 of 6 partitions free",
        "rack-1: 4 gpu: 3 free, 1 blocked, 1 unhealthy; 2 rdma: 2 free, 4 of 4 virtual functions free",
    ]
    rows = re.search(
        r"gpu (\d+) (\d+) (\d+) (\d+) (\d+) gpu-core (\S+ of \d+), gpu-memory (\S+ of \S+),", found.text
    )
    assert rows is not None
    assert rows.groups() == ("1", "1", "5", "1", "8", "570 of 700", "456Gi of 560Gi")
    assert (
        "gpu 1 gpu-1 NUMA 0, pcie-0 shared, health: good gpu-core 70 of 100, gpu-memory 56Gi of 80Gi"
        in found.text
    )
    assert "default/part gpu-core 30, gpu-memory 24Gi, gpu-memory-ratio 30" in found.text
    assert "virtual functions 1 of 2 default/joined rdma 1, function 00:00.0" in found.text
    assert "blocked, health: bad nothing" in found.text
    assert "0, 1 1 214748364800 partly in use" in found.text
    assert "2, 3 1 214748364800 free" in found.text


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/?node=rack-1", ["rack-1"]),
        ("/?node=RACK", ["rack-0", "rack-1", "rack-10", "rack-2"]),
        ("/?driver=gpu", ["rack-0", "rack-1", "rack-10", "rack-2"]),
        ("/?driver=fpga", []),
        ("/?driver=gpu.example.com", []),
        ("/?claim=default/one", ["rack-0"]),
        ("/?claim=nobody", []),
        ("/?claim=one&node=rack-1", []),
    ],
)
async def test_filters_by_node_type_and_pod(path: str, expected: list[str]):
    made = fleet()
    made.put(device(gpu(0), name="rack-10"), {})
    made.put(device(gpu(0), name="rack-2"), {})
    give(made, "one", {"nvidia.com/gpu": 1})
    assert machines(await shown(made, path)) == expected


async def test_a_filter_by_type_leaves_out_the_devices_of_others():
    found = await shown(fleet(), "/?driver=rdma")
    assert "rdma 0 rdma-0" in found.text
    assert "gpu 0 gpu-0" not in found.text
    assert "Partitions" not in found.text


async def test_many_machines_come_in_pages():
    made = fleet(30)
    first = await shown(made)
    assert len(first.all("article")) == 12
    assert "1 to 12 of 30 machines." in first.text
    following, _ = first.all("a", rel="next")
    assert following["href"] == "/?machines=2#machines"
    last = await shown(made, "/?machines=99")
    assert "25 to 30 of 30 machines." in last.text


async def test_without_device_objects_the_page_says_so_and_without_koordinator_nothing():
    assert "No Device objects are published." in (await shown(Fleet(Rules()))).text
    async with still_page.standing([]) as served:
        assert "Koordinator" not in (await ask(served.url)).text


async def test_names_that_mean_harm_do_none():
    made = Fleet(Rules())
    for name in (HOSTILE, QUOTES, TURNED, LONG):
        bad = {"id": name, "topology": {"nodeID": 0, "pcieID": name}}
        made.put(device({**gpu(0), **bad}, name=name), {})
        give(made, name, {"nvidia.com/gpu": 1})
    async with still_page.standing([], made) as served:
        text = (await ask(served.url)).text
    assert HOSTILE not in text
    assert "\u202e" not in text
    assert LONG not in text
    found = Seen(text)
    assert not found.all("img")
    assert len(found.all("script")) == 1
    assert len(found.all("article")) == 4


async def test_a_running_reconciler_shows_devices_and_pending_pods():
    cluster = KoordinatorCluster([node("a"), machine("a", gpu(0, (0, "x")))])
    cluster.load(wants("first", {"nvidia.com/gpu": 1}))
    async with watched(cluster, koordinator=True) as seen:
        await seen.heard(DevicesGiven)
        before = (await page(seen)).all("section", id="machines")
        cluster.load(wants("greedy", {"nvidia.com/gpu": 1}))
        await seen.told(Waits, reason="InsufficientDevices")
        found = await page(seen)
        assert found.all("section", id="machines") == before
        assert "1 pod is pending. InsufficientDevices 1 pod" in found.text
        assert "of pod default/greedy" not in found.text
        (why,) = [a["href"] for a in found.all("a") if str(a.get("href")).startswith("/explanation")]
        told = (await page(seen, str(why))).text
        assert "InsufficientDevices 0/1 nodes can give the devices: 1 with too few free devices" in told
        assert "gates before it. Needed: 1, for pod default/greedy" in told
        assert "all devices 1 selector 1 health 1 size 1 exclusive use 1 free amounts 0" in told
        cluster.remove("first")
        await seen.heard(DevicesGiven, 2)
        after = await page(seen)
        assert after.all("section", id="machines") != before
        assert "default/greedy" in after.text


def test_a_device_that_many_hold_is_drawn_within_its_box():
    made = Fleet(Rules())
    made.put(device(gpu(0, (0, "x")), name="n"), {})
    for number in range(12):
        give(made, f"p{number}", {"gpu-core": 5, "gpu-memory-ratio": 5})
    drawing = drawn(describe_machine(made, "n"))
    ground, *pieces = drawing.spans
    assert [piece.text for piece in pieces if piece.holder] == ["A", "B", "C+"]
    assert max(piece.x + piece.width for piece in pieces) <= ground.x + ground.width + 1e-9
    assert [holder.letter for holder in drawing.holders] == list("ABCDEFGHIJKL")


def test_addresses_keep_both_pages():
    query = Query.read({"page": "3", "machines": "2", "node": "a"})
    assert query.url() == "/?node=a&page=3&machines=2"
    assert Query.read({"machines": "x"}).machines == 1
