"""What a process no longer needs, it gives back."""

import asyncio
import ctypes
import gc
import weakref
from pathlib import Path

import pytest

from reconciler.aio.tasks import give_memory_back
from reconciler.app.lifecycle import COLLECT_SECONDS
from reconciler.control.decisions.allocating import Allocated
from tests.tools.running_reconciler import Cluster, reconciling
from tests.tools.small_fleet import claim, device_class, devices, node


class Circle:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


async def test_circular_garbage_that_outlived_young_collections_goes_within_minutes():
    cluster = Cluster([node("n"), device_class(), devices("n", "d0"), claim("c")])
    async with reconciling(cluster) as running:
        await running.heard(Allocated)
        await asyncio.sleep(1)  # what was listed is frozen
        gone = weakref.ref(circle := Circle())
        gc.collect(1)
        del circle
        gc.collect(1)
        assert gone() is not None
        gc.collect(0)
        await asyncio.sleep(COLLECT_SECONDS + 1)
        assert gone() is None


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="needs glibc")
def test_free_memory_between_used_blocks_is_given_back():
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    blocks = [bytes(1000) for _ in range(40_000)]
    used = blocks[::200]
    del blocks
    before = resident()
    give_memory_back()
    assert len(used) == 200
    assert before - resident() > 20e6
