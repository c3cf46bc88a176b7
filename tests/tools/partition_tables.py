"""Tables of partitions, as a class gives them."""

from tests.tools.builders import Object


def partition(*numbers: int, score: int = 0, bandwidth: str | None = None) -> Object:
    made: Object = {"devices": [f"gpu-{n}" for n in numbers], "score": score}
    return made if bandwidth is None else {**made, "bandwidth": bandwidth}


def table(*partitions: Object, policy: str = "Honor") -> Object:
    return {
        "apiVersion": "dra-reconciler.io/v1alpha1",
        "kind": "PartitionTable",
        "policy": policy,
        "partitions": list(partitions),
    }


PAIRS = [partition(0, 1), partition(2, 3), partition(4, 5), partition(6, 7)]
