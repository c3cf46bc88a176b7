"""What a pod may request: sums over containers, names together, counts and shares."""

from typing import Any

import pytest

from reconciler.api.objects.core import Pod
from reconciler.plugins.koordinator.demand import Demand, Failure, read_demand, requested
from reconciler.plugins.koordinator.rules import Rules
from tests.tools.koordinator_builders import demand, pod


def full(requests: dict[str, Any]) -> dict[str, Any]:
    return {"requests": {f"koordinator.sh/{name}": value for name, value in requests.items()}}


def test_a_pod_needs_what_its_containers_need_together_or_one_init_container_alone():
    wants = Pod.model_validate(
        {
            "metadata": {"name": "p"},
            "spec": {
                "containers": [{"resources": full({"rdma": "10"})}, {"resources": full({"rdma": "20"})}],
                "initContainers": [
                    {"resources": full({"fpga": "50"})},
                    {"resources": full({"rdma": "5"}), "restartPolicy": "Always"},
                    {"resources": full({"rdma": "90"})},
                ],
                "overhead": {"koordinator.sh/rdma": 1, "cpu": "250m"},
            },
        }
    )
    assert requested(wants) == {"koordinator.sh/rdma": 96, "koordinator.sh/fpga": 50}


def test_restartable_init_containers_run_beside_the_others():
    wants = Pod.model_validate(
        {
            "metadata": {"name": "p"},
            "spec": {
                "containers": [{"resources": full({"rdma": "10"})}],
                "initContainers": [{"resources": full({"rdma": "5"}), "restartPolicy": "Always"}],
            },
        }
    )
    assert requested(wants) == {"koordinator.sh/rdma": 15}


def test_a_limit_without_a_request_is_one():
    wants = pod({}, containers=[{"resources": {"limits": {"nvidia.com/gpu": 2}}}])
    assert requested(wants) == {"nvidia.com/gpu": 2}


def test_old_names_are_read_unless_the_new_one_is_there():
    assert requested(pod({"kubernetes.io/rdma": 100})) == {"koordinator.sh/rdma": 100}
    assert requested(pod({"kubernetes.io/rdma": 100, "rdma": 50})) == {"koordinator.sh/rdma": 50}


def test_a_pod_without_devices_of_ours_is_not_ours():
    assert read_demand(pod({"example.com/gpu": 1, "koordinator.sh/gpu": 0}), Rules()) is None


@pytest.mark.parametrize(
    ("requests", "reason"),
    [
        ({"gpu": 150}, "invalid-request-unit"),
        ({"rdma": 101}, "invalid-request-unit"),
        ({"fpga": 250}, "invalid-request-unit"),
        ({"rdma": "2Ei"}, "invalid-request-unit"),
        ({"gpu-core": 50}, "invalid-request-combination"),
        ({"gpu.shared": 1}, "invalid-request-combination"),
        ({"gpu-memory": 1, "gpu-memory-ratio": 1}, "invalid-request-combination"),
        ({"nvidia.com/gpu": 1, "gpu-memory": 1}, "invalid-request-combination"),
        ({"nvidia.com/gpu": 1, "amd.com/gpu": 1}, "invalid-request-combination"),
        ({"gpu-core": 150, "gpu-memory-ratio": 100}, "invalid-request-combination"),
        ({"gpu.shared": 2, "gpu-memory-ratio": 101}, "invalid-request-combination"),
        ({"gpu.shared": 2, "gpu-memory-ratio": 202}, "invalid-request-combination"),
        ({"gpu": 50, "rdma": 101}, "invalid-request-unit"),
    ],
)
def test_some_requests_are_refused_for_good(requests: dict[str, Any], reason: str):
    found = read_demand(pod(requests), Rules())
    assert isinstance(found, Failure)
    assert (found.reason, found.status) == (reason, "UnschedulableAndUnresolvable")


@pytest.mark.parametrize(
    ("requests", "count", "each", "shared"),
    [
        ({"nvidia.com/gpu": 2}, 2, {"gpu-core": 100, "gpu-memory-ratio": 100}, False),
        ({"gpu": 50}, 1, {"gpu-core": 50, "gpu-memory-ratio": 50}, True),
        ({"gpu": 300}, 3, {"gpu-core": 100, "gpu-memory-ratio": 100}, False),
        ({"gpu.shared": 2, "gpu-memory-ratio": 200}, 2, {"gpu-memory-ratio": 100}, False),
        (
            {"gpu.shared": 2, "gpu-core": 60, "gpu-memory-ratio": 60},
            2,
            {"gpu-core": 30, "gpu-memory-ratio": 30},
            True,
        ),
        # In bytes it is a part, were it the whole card, and one without gpu.shared.
        ({"gpu-memory": "80Gi"}, 1, {"gpu-memory": 80 * 2**30}, True),
        ({"gpu-core": 200, "gpu-memory": "80Gi"}, 1, {"gpu-core": 200, "gpu-memory": 80 * 2**30}, True),
        ({"gpu.shared": 3, "gpu-memory": 100}, 3, {"gpu-memory": 33}, True),
    ],
)
def test_gpus_are_counted_and_divided(
    requests: dict[str, Any], count: int, each: dict[str, int], shared: bool
):
    gpu = demand(pod(requests)).gpu
    assert gpu is not None
    wanted = {f"koordinator.sh/{name}": amount for name, amount in each.items()}
    assert (gpu.count, dict(gpu.each), gpu.shared) == (count, wanted, shared)


def test_a_share_must_equal_a_template_where_one_is_needed():
    each = {"huawei.com/npu-core": 1, "huawei.com/npu-cpu": 1, "koordinator.sh/gpu-memory": 3}
    wants = pod({"gpu.shared": 1, **each})
    found = read_demand(wants, Rules(templates={"huawei-310": {"a": each, "b": {**each, "x": 1}}}))
    assert isinstance(found, Demand)
    assert found.templates == {"huawei-310": ("a",)}
    refused = read_demand(wants, Rules(templates={"huawei-310": {"b": {**each, "x": 1}}}))
    assert isinstance(refused, Failure)
    assert refused.reason == "no-matching-share-template"
