"""What a scrape says of what still fits."""

import shutil
import subprocess

import pytest

from tests.tools.builders import device, partitioned, resource_slice
from tests.tools.running_reconciler import Cluster
from tests.tools.small_fleet import claim, held, node
from tests.tools.watched_reconciler import Watched, watched

pytestmark = pytest.mark.loopback


def assert_promtool_finds_nothing(text: str) -> None:
    """Where promtool is installed; test_scraping has its rules about names."""
    if promtool := shutil.which("promtool"):
        command = [promtool, "check", "metrics"]
        done = subprocess.run(command, check=False, input=text, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


async def test_what_fits_follows_what_is_held():
    whole = resource_slice("e", [device("e0"), device("e1")], driver="e", nodeName="n1")
    cluster = Cluster([node("n1"), *partitioned(), whole])

    async def fits(seen: Watched, driver: str, profile: str) -> float | None:
        return await seen.value("dra_reconciler_profile_fits", driver=driver, profile=profile)

    async with watched(cluster) as seen:

        async def counted() -> bool:
            return await fits(seen, "d", "half") == 2

        await seen.until(counted)
        assert_promtool_finds_nothing((await seen.get("/metrics")).text)
        assert await fits(seen, "d", "whole") == 1
        assert await fits(seen, "e", "device") == 2
        assert await seen.value("dra_reconciler_counters_stranded_ratio", driver="d") == 0
        assert await seen.value("dra_reconciler_counters_stranded_ratio", driver="e") is None
        cluster.load({**claim("old"), "status": held("d", "n1", "left")})

        async def taken() -> bool:
            return await fits(seen, "d", "half") == 1

        await seen.until(taken)
        assert await fits(seen, "d", "whole") == 0
        for profile, part in (("whole", 1.0), ("half", 0.0)):
            labels = {"driver": "d", "profile": profile}
            assert await seen.value("dra_reconciler_profile_fragmentation_ratio", **labels) == part
        assert await seen.value("dra_reconciler_counters_stranded_ratio", driver="d") == pytest.approx(2 / 6)
