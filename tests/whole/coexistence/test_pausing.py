"""The switch that stops all writes."""

from typing import Any

import pytest

from reconciler.api.validation.served_kinds import CONFIG_MAP
from reconciler.cluster.transport import Lines, Query, Request, Response, WatchRequest
from reconciler.control.decisions.allocating import Allocated, HeldBack, Ungated, WritesPaused, WritesResumed
from reconciler.errors import Rejected
from reconciler.settings import load
from tests.tools.faulty_transport import Held
from tests.tools.running_reconciler import Cluster, reconciling
from tests.tools.shared_clusters import SLOW, Listening, fleet, machine
from tests.tools.small_fleet import Object, claim, pod

WHERE: dict[str, Any] = {"pause_config_map": "ops/switch"}


def switch(**data: str) -> Object:
    metadata = {"name": "switch", "namespace": "ops"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def turn(cluster: Cluster, **data: str) -> None:
    def changed(shown: Object) -> Object:
        return {**shown, "data": data}

    cluster.api.update(CONFIG_MAP, "ops", "switch", changed)


async def test_paused_by_the_setting_it_decides_and_writes_nothing():
    cluster = fleet(machine("a"))
    cluster.load(claim("one"))
    async with reconciling(cluster, pause=True, **SLOW) as running:
        await running.heard(WritesPaused)
        await running.heard(HeldBack)
    assert running.faulty.sent == []
    assert cluster.devices("one") == []


@pytest.mark.parametrize("value", ["true", "True", " yes "])
async def test_a_config_map_pauses_and_what_was_held_is_written_when_it_says_so(value: str):
    cluster = fleet(machine("a"))
    cluster.load(switch(pause=value), claim("one"), pod("p", "one"))
    async with reconciling(cluster, **WHERE, **SLOW) as running:
        await running.heard(HeldBack)
        assert running.faulty.sent == []
        turn(cluster, pause="false")
        await running.heard(Ungated)
        (resumed,) = running.of(WritesResumed)
    assert resumed.held == 1
    assert running.of(WritesPaused)[-1].reason == f"ConfigMap ops/switch says pause: {value.strip().lower()}"


@pytest.mark.parametrize("data", [{}, {"pause": ""}, {"pause": "false"}, {"other": "true"}], ids=str)
async def test_any_other_word_lets_it_write(data: dict[str, str]):
    cluster = fleet(machine("a"))
    cluster.load(switch(**data), claim("one"))
    async with reconciling(cluster, **WHERE) as running:
        await running.heard(Allocated)


async def test_without_the_config_map_it_writes_and_its_removal_ends_the_pause():
    cluster = fleet(machine("a"))
    cluster.load(claim("one"))
    async with reconciling(cluster, **WHERE, **SLOW) as running:
        await running.heard(Allocated)
        cluster.load(switch(pause="true"))
        await running.heard(WritesPaused, 2)  # the first was that it had not been read yet
        cluster.load(claim("two"))
        await running.heard(HeldBack)
        cluster.api.delete(CONFIG_MAP, "ops", "switch")
        await running.heard(Allocated, 2)


async def test_a_pause_between_the_two_requests_of_a_write_stops_the_second():
    cluster = fleet(machine("a"))
    cluster.load(switch(), claim("one"))
    door = Held()
    async with reconciling(
        cluster, prepare=lambda f: f.on("PATCH", "/one", door), **WHERE, **SLOW
    ) as running:
        await door.arrived.wait()
        turn(cluster, pause="true")
        await running.heard(WritesPaused, 2)
        door.go.set()
        await running.heard(HeldBack)
        assert [path.rpartition("/")[2] for path in running.faulty.sent] == ["one"]
        assert cluster.devices("one") == []
        turn(cluster)
        await running.heard(Allocated)


async def test_only_that_one_config_map_is_asked_for():
    cluster = fleet(machine("a"))
    cluster.load({**switch(pause="true"), "metadata": {"name": "other", "namespace": "ops"}})
    cluster.load({**switch(pause="true"), "metadata": {"name": "switch", "namespace": "default"}})
    cluster.load(claim("one"))
    async with reconciling(cluster, **WHERE) as running:
        await running.heard(Allocated)


@pytest.mark.parametrize("name", ["switch", "/switch", "ops/", "Ops/switch", "a/b/c"])
def test_the_name_of_the_config_map_has_a_namespace(name: str):
    flags: dict[str, Any] = {"pause_config_map": name}
    with pytest.raises(Rejected, match="--pause-config-map"):
        load(flags, None)


async def test_the_server_is_asked_by_name_so_that_a_right_to_one_object_is_enough():
    cluster = fleet(machine("a"))
    cluster.load(claim("one"))
    asked: list[Query] = []

    class Noting(Listening):
        async def send(self, request: Request) -> Response:
            self.note(request)
            return await super().send(request)

        def stream(self, request: WatchRequest) -> Lines:
            self.note(request)
            return super().stream(request)

        def note(self, request: Request | WatchRequest) -> None:
            if request.path.endswith("/namespaces/ops/configmaps"):
                asked.append(request.query)

    async with reconciling(cluster, prepare=Noting().prepare, **WHERE) as running:
        await running.heard(Allocated)
    assert asked
    assert all(("fieldSelector", "metadata.name=switch") in query for query in asked)
