"""The gates of a server count for a running process, unless `--feature-gates` says otherwise."""

from typing import Any

import pytest

from reconciler.control.decisions.allocating import Allocated, Waits
from tests.tools.release_servers import Release
from tests.tools.running_reconciler import Cluster, reconciling
from tests.tools.small_fleet import claim, device_class, devices, node


def deriving() -> dict[str, Any]:
    """A claim whose request derives an attribute."""
    made = claim("c", 2)
    devices_of = made["spec"]["devices"]
    derived = {"name": "example.com/one", "expression": "1"}
    devices_of["requests"][0]["exactly"]["derivedAttributes"] = [derived]
    devices_of["constraints"] = [{"matchAttribute": "example.com/one"}]
    return made


@pytest.mark.parametrize(
    ("minor", "gates", "fits"),
    [
        (None, "", True),
        (None, "DRADerivedAttributes=false", False),
        (37, "", False),
        (37, "DRADerivedAttributes=true", True),
    ],
)
async def test_a_gate_has_the_default_of_the_release_unless_it_is_set(
    minor: int | None, gates: str, fits: bool
):
    cluster = Cluster([])
    if minor is not None:
        cluster.api = Release(minor)
    cluster.load(device_class(), node("a"), devices("a", "d0", "d1"), deriving())
    async with reconciling(cluster, feature_gates=gates) as running:
        if fits:
            await running.heard(Allocated)
        else:
            (waits,) = await running.heard(Waits)
            assert waits.reason == "FeatureDisabled"
            assert "derivedAttributes needs the feature gate DRADerivedAttributes" in waits.message
    assert bool(cluster.devices("c")) == fits
