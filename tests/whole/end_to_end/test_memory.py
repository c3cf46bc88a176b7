"""What a process no longer needs, it gives back."""

import asyncio
import ctypes
import gc
from pathlib import Path

import pytest

from reconciler.app.lifecycle import GIVE_BACK_SECONDS
from reconciler.control.decisions.allocating import Allocated
from tests.tools.running_reconciler import Cluster, reconciling
from tests.tools.small_fleet import claim, device_class, devices, node


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="needs glibc")
async def test_free_memory_between_used_blocks_is_given_back_within_minutes():
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    cluster = Cluster([node("n"), device_class(), devices("n", "d0"), claim("c")])
    async with reconciling(cluster) as running:
        await running.heard(Allocated)
        await asyncio.sleep(1)  # what was listed is frozen
        blocks = [bytes(1000) for _ in range(40_000)]
        used = blocks[::200]
        del blocks
        gc.collect(0)  # as happens where objects are made
        before = resident()
        await asyncio.sleep(GIVE_BACK_SECONDS + 1)
        assert len(used) == 200
        assert before - resident() > 20e6
