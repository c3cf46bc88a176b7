"""Hostile objects on a server, over HTTP: healthy claims beside them are allocated all the same.

They are put into the store of the embedded server past its validation: what it would refuse, another server,
an older one or one with a hole, may not.
"""

from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs

from reconciler.api.validation.kinds import ServedKind
from reconciler.api.validation.served_kinds import CLAIM, SLICE
from reconciler.control.decisions.allocating import Allocated
from reconciler.embedded.store import key_of
from tests.tools.hostile_objects import CLAIMS, SLICES, Object
from tests.tools.running_reconciler import Cluster, reconciling
from tests.tools.small_fleet import claim, device_class, devices, node

pytestmark = pytest.mark.loopback

UNSPEAKABLE = {
    "half characters",
    "deep nesting",
    "deep nesting where nobody reads",
    "parameters nested deeply",
}
"""What the embedded server cannot put into words itself"""
SLOW = "slow selectors in great numbers"
LONG_WORK = {SLOW, "cheap selectors in great numbers", "a megabyte of tolerations"}
"""Those that test_alone.py decides: seconds of work"""


class Careless(Cluster):
    """A server that takes anything."""

    def smuggle(self, obj: Object, name: str) -> None:
        kind: ServedKind = SLICE if obj["kind"] == "ResourceSlice" else CLAIM
        namespace = "default" if kind.namespaced else ""
        metadata: dict[str, Any] = {
            **obj["metadata"],
            "name": name,
            "uid": f"uid-{name}",
            "creationTimestamp": "2020-01-01T00:00:00Z",  # before others, so that they have to wait for it
        }
        spec = obj["spec"]
        if "pool" in spec:
            spec = {**spec, "pool": {**spec["pool"], "name": name}}
        self.api.store.put(kind, key_of(kind, namespace, name), {"metadata": metadata, "spec": spec})


def fleet() -> Careless:
    return Careless([node("m"), node("n"), device_class(), devices("n", "d0", "d1", "d2")])


def selecting(name: str, text: str) -> Object:
    """A healthy claim with a selector that nobody has used yet."""
    made = claim(name)
    made["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = [{"cel": {"expression": text}}]
    return made


async def test_all_hostile_slices_together_hold_up_nobody():
    cluster = fleet()
    for number, (name, obj) in enumerate(SLICES.items()):
        if name not in UNSPEAKABLE:
            cluster.smuggle(obj, f"evil-{number}")
    cluster.load(claim("first"))
    with capture_logs() as logs:
        async with reconciling(cluster):
            await cluster.until(lambda: cluster.devices("first"))
            cluster.load(selecting("second", "device.driver.startsWith('gpu')"))
            for number, (name, obj) in enumerate(SLICES.items()):  # some once more, as events
                if "quantity" in name or "annotation" in name or "counters" in name:
                    cluster.smuggle(obj, f"evil-again-{number}")
            await cluster.until(lambda: cluster.devices("second"))
            cluster.load(claim("third"))
            await cluster.until(lambda: cluster.devices("third"))
    found = {*cluster.devices("first"), *cluster.devices("second"), *cluster.devices("third")}
    assert found == {"n/d0", "n/d1", "n/d2"}
    refused = [entry for entry in logs if entry["event"] == "invalid object ignored"]
    assert len(refused) >= sum(name.startswith("the quantity") for name in SLICES)
    assert all(entry["name"].startswith("evil") and entry["reason"] for entry in refused)


async def test_hostile_claims_get_a_reason_and_hold_up_nobody():
    cluster = fleet()
    names = [name for name in CLAIMS if name not in UNSPEAKABLE | LONG_WORK]
    for number, name in enumerate(names):
        cluster.smuggle(CLAIMS[name], f"evil-{number}")
    cluster.load(claim("first"))
    async with reconciling(cluster, events=False) as running:
        await cluster.until(lambda: cluster.devices("first"))
        cluster.load(selecting("second", "device.driver.endsWith('example.com')"))
        await cluster.until(lambda: cluster.devices("second"))
        await running.heard(Allocated, 2)
    assert {key.name for done in running.of(Allocated) for key in [done.claim]} == {"first", "second"}


async def test_selectors_of_others_are_run_between_those_that_take_for_ever():
    """The slow claim is the older one, and would keep the thread for selectors busy for minutes."""
    cluster = fleet()
    cluster.smuggle(CLAIMS[SLOW], "evil")
    async with reconciling(cluster) as running:
        for number in range(3):
            cluster.load(selecting(f"good-{number}", f"device.driver.size() > {number}"))
            await cluster.until(partial(cluster.devices, f"good-{number}"))
        assert running.waits("evil") == [], "it was not waited for"
