"""A node whose GPU is published whole and in parts."""

from tests.tools.builders import Object, counter_slice, device, resource_slice


def half(name: str, at: int) -> Object:
    return device(name, {"profile": "half"}, draws={"gpu": {"mem": 4, f"slice-{at}": 1}})


def partitioned(node: str = "n1") -> list[Object]:
    """A GPU as one whole device and two halves, and a half that shares its place with the second."""
    whole = device("whole", {"profile": "whole"}, draws={"gpu": {"mem": 10, "slice-0": 1, "slice-1": 1}})
    parts = [whole, half("left", 0), half("right", 1), half("right-too", 1)]
    here: Object = {"nodeName": node, "pool": node, "slices": 2}
    sets = {"gpu": {"mem": 10, "slice-0": 1, "slice-1": 1}}
    return [counter_slice(f"{node}-c", sets, **here), resource_slice(f"{node}-d", parts, **here)]
