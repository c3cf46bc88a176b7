"""What a pod takes of a node while its resources change."""

from typing import Any

import pytest

from reconciler.api.objects.core import Pod
from reconciler.api.versions.reading import read
from reconciler.state.nodes.room import demand
from tests.tools.small_fleet import pod


def cpu(milli: int) -> dict[str, Any]:
    return {"requests": {"cpu": f"{milli}m"}}


@pytest.mark.parametrize(("asked", "has", "given"), [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
def test_a_pod_as_a_whole_takes_the_most_of_asked_actual_and_allocated(asked: int, has: int, given: int):
    """As its containers do: they differ while the kubelet has not resized it yet."""
    raw = pod("p", resources=cpu(asked))
    raw["status"] = {"resources": cpu(has), "allocatedResources": cpu(given)["requests"]}
    found = read(raw)
    assert isinstance(found, Pod)
    assert demand(found)["cpu"] == 3
