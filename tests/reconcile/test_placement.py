"""On which nodes a pod's claims may be decided."""

from typing import Any

import pytest

from reconciler.errors import Rejected
from reconciler.inventory.reach import NodeInfo
from reconciler.objects.claims import Allocation
from reconciler.reconcile.placement import candidates
from tests.end_to_end.objects import held, pod
from tests.reconcile.pictures import as_pod

NODES = {
    name: NodeInfo(name, {"zone": zone}) for name, zone in {"b": "east", "a": "east", "c": "west"}.items()
}


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


def expression(operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "zone", "operator": operator, "values": list(values)}]}


def allocation(on: str) -> Allocation:
    return Allocation.model_validate(held("d", "p", "x", on=on)["allocation"])


@pytest.mark.parametrize(
    ("spec", "on", "expected"),
    [
        pytest.param({}, (), None, id="nothing said: any node"),
        pytest.param({"nodeSelector": {"zone": "east"}}, (), ("a", "b"), id="labels"),
        pytest.param({"nodeSelector": {"zone": "north"}}, (), (), id="labels of no node"),
        pytest.param(affinity(expression("NotIn", "east")), (), ("c",), id="affinity"),
        pytest.param(
            affinity(expression("In", "north"), expression("In", "west")), (), ("c",), id="any term"
        ),
        pytest.param(affinity({}), (), (), id="an empty term matches no node"),
        pytest.param({"nodeName": "b"}, (), ("b",), id="bound already"),
        pytest.param({}, ("c",), ("c",), id="where another claim is"),
        pytest.param({"nodeSelector": {"zone": "east"}}, ("c",), (), id="labels against another claim"),
        pytest.param({}, ("a", "c"), (), id="two claims on two nodes"),
        pytest.param({"affinity": {}}, (), None, id="no required affinity"),
    ],
)
def test_candidates(spec: dict[str, Any], on: tuple[str, ...], expected: tuple[str, ...] | None):
    assert candidates(as_pod(pod("p", **spec)), map(allocation, on), NODES) == expected


def test_a_selector_that_cannot_be_read_is_rejected():
    with pytest.raises(Rejected, match="Near"):
        candidates(as_pod(pod("p", **affinity(expression("Near", "x")))), (), NODES)
