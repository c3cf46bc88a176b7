"""Which admission checks are served, and what a process says that cannot answer."""

import re
from typing import Any

import pytest
import yaml

from reconciler.api.objects.meta import ObjectKey
from reconciler.api.validation.served_kinds import POD
from reconciler.cluster.client import Client
from reconciler.cluster.transport import Lines, Request, Response, WatchRequest
from reconciler.control.decisions.allocating import Ungated
from reconciler.control.decisions.every import WorkloadChecked
from reconciler.errors import Rejected
from reconciler.plugins.kueue.objects import ADMISSION_CHECK, CONTROLLER
from reconciler.plugins.kueue.running import kinds_for_check
from reconciler.settings import Settings
from tests.tools.checkout import DOCS
from tests.tools.definitions import assert_valid
from tests.tools.kueue_queue import (
    KUEUE,
    check,
    checked,
    checking,
    flavor,
    fleet,
    workload,
)
from tests.tools.running_reconciler import Cluster
from tests.tools.small_fleet import claim, device_class, devices, node, pod, template


class Nothing:
    """A transport to a server that serves nothing."""

    async def send(self, _: Request) -> Response:
        return Response(404, {}, b"{}")

    def stream(self, request: WatchRequest) -> Lines:
        raise AssertionError(request)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"shard": "driver=d"}, "a shard knows a part of the fleet only"),
        ({}, "the server does not serve kueue.x-k8s.io in v1beta2 or v1beta1: install Kueue"),
    ],
)
async def test_a_check_that_cannot_be_answered_stops_the_start(flags: dict[str, Any], said: str):
    settings = Settings(embedded=True, kueue_check="room", **flags)
    with pytest.raises(Rejected, match=said):
        await kinds_for_check(settings, Client(Nothing()))


async def test_the_check_says_that_it_is_served():
    cluster = fleet(a=1)
    async with checking(cluster) as (running, _):
        cluster.load(workload("job", 1))
        await checked(running, "job", "Ready")
        record = cluster.api.store[ADMISSION_CHECK].get("room")
        assert record is not None
        (condition,) = record.object["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("Active", "True")


async def test_a_check_of_another_controller_is_left_alone():
    cluster = Cluster([device_class(), template("t"), flavor("gpus"), check("example.com/other")])
    cluster.load(node("a"), devices("a", "d0"))
    async with checking(cluster) as (running, queue):
        cluster.load(workload("job", 1))
        cluster.load(claim("other", managed=False), pod("other", "other"))
        await running.heard(Ungated)
        assert queue.ours("job")["state"] == "Pending"
        assert not running.of(WorkloadChecked)
        record = cluster.api.store[ADMISSION_CHECK].get("room")
        assert record is not None
        assert "status" not in record.object
    assert cluster.api.store[POD].get("default/other") is not None
    assert ObjectKey("default", "other") == running.of(Ungated)[0].pod


def test_the_check_of_the_page_is_one_that_we_serve():
    (block,) = re.findall(r"```yaml\n(.*?)```", (DOCS / "with-kueue.md").read_text(), re.DOTALL)
    made, _ = yaml.safe_load_all(block)
    assert_valid(ADMISSION_CHECK, made)
    assert (made["apiVersion"], made["spec"]["controllerName"]) == (KUEUE, CONTROLLER)
