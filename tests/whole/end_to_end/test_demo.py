"""The demonstration settles and shows the expected allocations and reasons."""

import re
import sys
from io import StringIO

import pytest

from reconciler.cli.demo import play, read_demo_manifests
from reconciler.cli.output import Console

pytestmark = pytest.mark.loopback


async def shown() -> str:
    out = StringIO()
    await play(read_demo_manifests(sys.stdin.buffer), Console(out))
    return re.sub(r"-[a-z0-9]{5}\b(?=:|  )", "", out.getvalue())


async def test_it_prints_each_allocation_and_why_the_rest_is_pending(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    # Which of equal devices a claim gets depends on when the pods' claims are there, so they are not named.
    text = re.sub(r"(gpu|rdma)-[0-3]\b", r"\1-N", await shown())
    for line in (
        "allocated inference/mig-mix: gpu-N-mig-1g-5gb-0, gpu-N-mig-1g-5gb-1, gpu-N-mig-2g-10gb-2-3, "
        "gpu-N-mig-3g-20gb-4-7 on a100-0",
        "allocated inference/notebook-gpu: gpu-N-mig-1g-5gb-0 on a100-0",
        "allocated inference/chat-gpu: gpu-N on h100-0",
        "allocated research/whole-a100: gpu-N on a100-0",
        "allocated science/torus: slice-4x4 on tpu-0",
        "allocated training/pair: gpu-N, gpu-N on h100-0",
        "allocated training/replica-nic: rdma-N on h100-0",
        "allocated training/trainer-gpu: gpu-N on h100-0",
        "allocated training/trainer-nic: rdma-N on h100-0",
        "inference/vision: ",
        "research/typo: ClassNotFound: ",
        "science/torus-half: CountersExhausted: ",
        "science/torus-of-64: NoMatchingDevice: ",
        "training/mirror-nic: DevicesInUse: ",
        "training/quartet: DevicesInUse: ",
        "9 claims allocated, 8 still in use; 6 pending. Pods: 7 running, 1 succeeded, 1 gated.",
    ):
        assert line in text
