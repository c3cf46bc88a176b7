"""The charts of a fleet, what filters select, and what the page remembers of refusals."""

from random import Random
from typing import Any

import numpy as np
import pytest

from reconciler.analysis.capacity.layout import fleet_layout
from reconciler.analysis.capacity.lines import lines
from reconciler.analysis.capacity.measure import Solver, measure
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.control.decisions.allocating import Freed, Waits
from reconciler.control.units import Kind, Unit
from reconciler.control.waiting import Pending
from reconciler.operations.page.charts import CELLS, Charts, Index, Scene, scene
from reconciler.operations.page.drawing import draw
from reconciler.operations.page.fleet import use_of
from reconciler.operations.page.map import _physical
from reconciler.operations.page.pending import PendingIndex
from reconciler.operations.page.query import Query, select_charts, select_claims
from reconciler.operations.page.sources import SPARE, RefusalMessages
from tests.tools import builders
from tests.tools.builders import counter_slice, device, devices, request, resource_slice, typed
from tests.tools.still_page import Still, StillSources


def still(*objects: builders.Object) -> Still:
    return Still(builders.store(*objects))


async def charts(of: Still) -> Charts:
    return await Index(of.store.snapshot, PendingIndex(StillSources(of))).charts()


async def scenes(of: Still) -> list[Scene]:
    found = [scene(chart, of.store.snapshot()) for chart in (await charts(of)).all]
    assert all(found)
    return [one for one in found if one is not None]


def gpus(node: str, count: int, **fields: Any) -> list[builders.Object]:
    """A pool of so many GPUs, each with two slots, memory, and a link that it shares with its neighbour."""
    sets: dict[str, dict[str, str | int]] = {
        f"gpu-{at}": {"slice-0": 1, "slice-1": 1, "memory": 40} for at in range(count)
    }
    sets["links"] = {"lanes": 4 * count}
    content = [
        device(
            f"gpu-{at}-{name}", {"profile": name}, draws={f"gpu-{at}": drawn, "links": {"lanes": len(drawn)}}
        )
        for at in range(count)
        for name, drawn in {
            "half-0": {"slice-0": 1, "memory": 15},
            "half-1": {"slice-1": 1, "memory": 15},
            "whole": {"slice-0": 1, "slice-1": 1, "memory": 40},
        }.items()
    ]
    where = {"pool": node, "nodeName": node, "slices": 2, **fields}
    return [counter_slice(f"{node}-sets", sets, **where), resource_slice(f"{node}-parts", content, **where)]


def claims(count: int) -> list[builders.Object]:
    return [builders.claim(f"c-{at}", request()) for at in range(count)]


@pytest.mark.parametrize("seed", range(4))
async def test_how_full_charts_are_is_what_counting_by_name_says(seed: int):
    random = Random(seed)
    fleet = still(
        builders.device_class(),
        builders.node("n1"),
        builders.node("n2"),
        *gpus("n1", random.randint(1, 3)),
        *gpus("n2", random.randint(1, 3)),
        builders.gpu_slice("n1", random.randint(1, 5), driver="plain"),
    )
    given = fleet.allocate(*claims(random.randint(0, 4)))
    held = {found for of_claim in given for found in of_claim}
    found = use_of(fleet.store.snapshot())
    expected, alone = [], []
    for one in await scenes(fleet):
        pool = one.chart.pool
        taken = [shown for shown in one.devices if DeviceID(*pool, shown.name) in held]
        assert [shown.name for shown in taken] == [s.name for s in one.devices if s.state == "held"]
        if one.chart.set < 0:
            alone += [float(shown in taken) for shown in one.devices]
            continue
        drawn = [0] * len(one.counters)
        for number, shown in enumerate(one.devices):
            if shown in taken:
                drawn = [a + int(b) for a, b in zip(drawn, one.draws[number], strict=True)]
        cut = [at for at, name in enumerate(one.counters) if name.startswith(("slice", "lanes"))]
        expected.append(sum(drawn[at] for at in cut) / sum(one.totals[at] for at in cut))
        assert list(one.left) == [b - a for a, b in zip(drawn, one.totals, strict=True)]
    assert found.use.tolist() == pytest.approx([*expected, *alone])
    of_sets = [one for one in await scenes(fleet) if one.chart.set >= 0]
    full = [all(shown.state in ("held", "blocked") for shown in one.devices) for one in of_sets]
    assert found.full.tolist() == [*full, *(part == 1 for part in alone)]


async def test_top_counts_as_full_what_the_page_shows_as_full():
    """Devices that no decision could give are neither: here those of a pool with a missing slice."""
    shared = device("nic", capacity={"bandwidth": "10Gi"}, allowMultipleAllocations=True)
    fleet = still(
        builders.device_class(),
        *(builders.node(f"n{number}") for number in range(1, 5)),
        resource_slice("broken", devices("gpu"), driver="broken", nodeName="n1"),
        *gpus("n2", 2),
        builders.gpu_slice("n3", 1, driver="plain"),
        resource_slice("s", [shared], driver="plain", nodeName="n4"),
    )
    fleet.allocate(*claims(4), builders.claim("nic", request(capacity={"bandwidth": "10Gi"})))
    broken = resource_slice("broken", devices("gpu"), driver="broken", slices=2, nodeName="n1")
    fleet.store.apply(Changed("ResourceSlice", typed(broken)))
    world = fleet.store.snapshot()
    found = lines(measure(fleet_layout(world.topology), world.occupancy, Solver()), "driver")
    counted = {line.driver: line.full for line in found}
    assert "broken" not in counted
    assert sum(counted.values()) > 0
    assert sum(counted.values()) == use_of(world).full.sum()


async def test_a_card_is_titled_by_its_device_and_node():
    assert _physical("gpu-0-counter-set", ("a100-0",)) == "GPU 0 on a100-0"
    assert _physical("gpu-11", ()) == "GPU 11"
    assert _physical("links", ("n1", "n2")) == "links"
    assert _physical("counter-set", ()) == "counter-set"


async def test_who_draws_from_two_sets_is_on_both_charts():
    fleet = still(builders.device_class(), builders.node("n1"), *gpus("n1", 2))
    one, other, links = await scenes(fleet)
    assert {one.chart.name, other.chart.name, links.chart.name} == {"gpu-0", "gpu-1", "links"}
    assert len(one.devices) == len(other.devices) == 3
    assert len(links.devices) == 6
    index, world = await charts(fleet), fleet.store.snapshot()
    found = list(index.of_device(DeviceID("d", "n1", "gpu-1-whole"), world.fleet))
    assert sorted(index.all[at].name for at in found) == ["gpu-1", "links"]
    assert list(index.of_device(DeviceID("d", "n1", "gone"), world.fleet)) == []
    assert list(index.of_device(DeviceID("d", "gone", "gone"), world.fleet)) == []


async def test_devices_without_counters_come_in_groups_and_old_generations_not_at_all():
    names = [f"nic-{number:03}" for number in range(CELLS + 2)]
    fleet = still(
        resource_slice("old", devices("gone"), generation=1, nodeName="n1"),
        resource_slice("new", devices(*names), generation=2, nodeName="n1"),
    )
    first, second = await scenes(fleet)
    assert [shown.name for shown in (*first.devices, *second.devices)] == names
    assert len(first.devices) == CELLS


async def test_charts_follow_the_slices_and_keep_what_did_not_change():
    fleet = still(builders.node("n1"), *gpus("n1", 1), *gpus("n2", 1))
    index = Index(fleet.store.snapshot, PendingIndex(StillSources(fleet)))
    before = await index.charts()
    assert await index.charts() is before
    fleet.store.apply(Changed("ResourceSlice", typed(builders.gpu_slice("n3"))))
    after = await index.charts()
    assert len(after.all) == len(before.all) + 1
    assert set(map(id, before.all)) < set(map(id, after.all))
    gone = before.all[0]
    fleet.store.apply(Changed("ResourceSlice", typed(gpus("n1", 2)[0])))
    assert scene(gone, fleet.store.snapshot()) is None


async def test_amounts_are_drawn_to_scale_and_claims_in_the_order_of_their_slots():
    fleet = still(builders.device_class(), builders.node("n1"), *gpus("n1", 1))
    fleet.allocate(*claims(2))
    gpu, _ = await scenes(fleet)
    made = draw(gpu)
    assert [(h.letter, h.claim.name) for h in made.holders] == [("A", "c-0"), ("B", "c-1")]
    memory = [span for span in made.spans if span.title.startswith("memory: ")]
    assert [span.width for span in memory] == [240 * 15 / 40] * 2
    assert memory[1].x == memory[0].x + memory[0].width
    assert memory[1].title == "memory: default/c-1 consumes 15"
    whole = [span for span in made.spans if span.title.startswith("gpu-0-whole")]
    assert [span.state for span in whole] == ["blocked"]
    assert whole[0].width == 240 - 2


async def test_shared_devices_say_what_is_taken_of_them():
    shared = device("nic", capacity={"bandwidth": "100Gi"}, allowMultipleAllocations=True)
    fleet = still(builders.device_class(), builders.node("n1"), resource_slice("s", [shared], nodeName="n1"))
    wanted = request(capacity={"bandwidth": "30Gi"})
    fleet.allocate(builders.claim("a", wanted), builders.claim("b", wanted))
    (only,) = await scenes(fleet)
    (nic,) = only.devices
    assert nic.state == "shared"
    assert [claim.name for claim in nic.claims] == ["a", "b"]
    assert nic.consumed == (("bandwidth", "60Gi"),)
    (span,) = draw(only).spans
    assert span.text == "A+"
    assert span.title == "nic, shared by default/a, default/b, 60Gi bandwidth consumed"


async def test_a_whole_name_means_itself_and_a_part_all_that_contain_it():
    fleet = still(builders.device_class(), builders.node("n1"), builders.gpu_slice("n1", 4))
    fleet.allocate(*(builders.claim(name, request()) for name in ("web", "web-2", "other")))
    sources = StillSources(fleet)
    assert select_claims("default/web", sources) == [ObjectKey("default", "web")]
    assert {key.name for key in select_claims("WEB", sources)} == {"web", "web-2"}
    assert select_claims("web/default", sources) == []


async def test_a_node_means_its_own_pools_and_those_it_shares():
    everywhere = resource_slice("all", devices("fabric"), pool="fabric", allNodes=True)
    some = resource_slice(
        "some",
        devices("torus"),
        pool="torus",
        nodeSelector=builders.node_selector(builders.labelled("torus", "yes")),
    )
    fleet = still(
        builders.node("n1", torus="yes"),
        builders.node("n10"),
        builders.gpu_slice("n1"),
        builders.gpu_slice("n10"),
        builders.gpu_slice("gone"),
        everywhere,
        some,
    )
    index, world, sources = await charts(fleet), fleet.store.snapshot(), StillSources(fleet)

    def meant(**query: str) -> set[str]:
        found = select_charts(Query(**query), index, world, sources)  # type: ignore[arg-type]
        return {index.all[at].pool.pool for at in np.asarray(found).tolist()}

    assert meant(node="n1") == {"n1", "fabric", "torus"}
    assert meant(node="n10") == {"n10", "fabric"}
    assert meant(node="n") == {"n1", "n10", "fabric", "torus"}
    assert meant(node="gon") == {"gone"}
    assert meant(node="nowhere") == set()
    assert meant(driver="d", node="n10") == {"n10", "fabric"}
    assert meant() == {"n1", "n10", "gone", "fabric", "torus"}


def unit(name: str) -> Unit:
    return Unit(Kind.CLAIM, ObjectKey("ns", name))


def refused(name: str, message: str) -> Waits:
    return Waits((ObjectKey("ns", name),), None, "DevicesInUse", message)


def test_the_last_message_of_a_unit_is_kept():
    messages = RefusalMessages(Pending())
    messages.on_decision(refused("a", "first"))
    messages.on_decision(refused("a", "second"))
    messages.on_decision(Freed(ObjectKey("ns", "a"), "why"))
    assert messages.of(unit("a")) == "second"
    assert messages.of(unit("b"), "nothing yet") == "nothing yet"


def test_messages_of_units_that_are_not_pending_are_dropped_when_there_are_many():
    pending = Pending()
    messages = RefusalMessages(pending)
    pending.note(unit("pending"), "DevicesInUse", [ObjectKey("ns", "pending")])
    messages.on_decision(refused("pending", "kept"))
    messages.on_decision(refused("gone", "dropped"))
    for number in range(SPARE + 1):
        messages.on_decision(refused(f"other-{number}", "dropped"))
    assert messages.of(unit("pending")) == "kept"
    assert messages.of(unit("gone")) == ""
