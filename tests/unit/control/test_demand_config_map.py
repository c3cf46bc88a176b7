"""The ConfigMap with the learnt demand, on the embedded server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from structlog.testing import capture_logs

from reconciler.allocation.policies.demand import Demand, Shape
from reconciler.api.objects.claims import ResourceClaimSpec
from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.client import Client
from reconciler.cluster.kinds import config_map
from reconciler.control.demand import DemandConfigMap, Kept
from reconciler.embedded import ApiServer
from tests.tools.running_reconciler import reached
from tests.tools.small_fleet import claim_spec

KEY = ObjectKey("default", "demand")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DEMAND = Demand((Shape(ResourceClaimSpec.model_validate(claim_spec()), 500, 3000),))


@asynccontextmanager
async def client(**data: str) -> AsyncIterator[Client]:
    """A client of a server that has the ConfigMap with this data."""
    api = ApiServer()
    metadata = {"name": KEY.name, "namespace": KEY.namespace}
    api.load([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}])
    async with reached(api) as transport:
        yield Client(transport)


def keeper(over: Client, key: ObjectKey = KEY, *, leads: bool = True) -> DemandConfigMap:
    return DemandConfigMap(over, key, writes=lambda: leads)


async def data(over: Client) -> Any:
    return (await over.get(config_map(KEY), KEY)).get("data", {})


async def test_what_is_written_is_read_after_a_restart():
    async with client(other="x") as over:
        assert await keeper(over).read() == Kept()
        assert await keeper(over).write(DEMAND, NOON)
        assert await keeper(over).read() == Kept(DEMAND, NOON)
        assert (await data(over))["other"] == "x"


async def test_only_the_leader_writes():
    async with client() as over:
        assert not await keeper(over, leads=False).write(DEMAND, NOON)
        assert await data(over) == {}


async def test_a_change_by_another_client_is_not_overwritten_unseen():
    async with client() as over:
        mine = keeper(over)
        assert await mine.write(DEMAND, NOON)
        await over.patch(config_map(KEY), KEY, {"data": {"demand": "{}"}})
        assert not await mine.write(DEMAND, NOON)
        assert (await data(over))["demand"] == "{}"
        assert await mine.write(DEMAND, NOON)


async def test_a_config_map_that_is_missing_is_reported_once():
    async with client() as over:
        mine = keeper(over, ObjectKey("default", "gone"))
        with capture_logs() as logs:
            assert await mine.read() == Kept()
            assert not await mine.write(DEMAND, NOON)
            assert not await mine.write(DEMAND, NOON)
    (line,) = logs
    assert line["event"] == "learnt demand not kept"
    assert line["remedy"] == "create it, empty"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"demand": "{", "at": "2026-01-01T12:00:00Z"}, "must be JSON with a list of shapes"),
        ({"demand": DEMAND.to_json(), "at": "noon"}, "must be a time in RFC 3339 format"),
        ({"demand": DEMAND.to_json()}, "must be a time in RFC 3339 format"),
    ],
)
async def test_content_that_cannot_be_read_is_refused_and_replaced(found: dict[str, str], said: str):
    async with client(**found) as over:
        with capture_logs() as logs:
            assert await keeper(over).read() == Kept()
        (line,) = logs
        assert line["event"] == "learnt demand refused"
        assert said in line["error"]
        assert await keeper(over).write(DEMAND, NOON)
        assert await keeper(over).read() == Kept(DEMAND, NOON)
