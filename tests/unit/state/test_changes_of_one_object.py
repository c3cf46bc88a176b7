"""A change of one object costs as much among many as among few: most listings come object by object."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from reconciler.api.objects.changes import Changed
from reconciler.api.versions.reading import read
from reconciler.plugins.kueue.served import KueueObjects
from reconciler.state.nodes.table import Nodes
from reconciler.state.pods.groups import PodGroups

MANY = 800
GANG = {"schedulingPolicy": {"gang": {"minCount": 2}}}


@pytest.mark.parametrize(
    ("kind", "version", "spec", "noted"),
    [
        ("Node", "v1", {}, lambda: Nodes().note),
        ("Namespace", "v1", {}, lambda: Nodes().note),
        ("PersistentVolumeClaim", "v1", {}, lambda: Nodes().note),
        ("PodGroup", "scheduling.k8s.io/v1beta1", GANG, lambda: PodGroups().note),
        (
            "ResourceClaimTemplate",
            "resource.k8s.io/v1",
            {"spec": {}},
            lambda: KueueObjects(lambda: None).take,
        ),
    ],
)
def test_a_change_of_one_object_makes_no_list_of_all(
    kind: str, version: str, spec: dict[str, Any], noted: Callable[[], Callable[[Changed], object]]
):
    def changed(name: str) -> Changed:
        raw = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        return Changed(kind, read(raw))

    note = noted()
    for number in range(MANY):
        note(changed(f"n{number}"))
    again = changed("n0")
    note(again)
    tracemalloc.start()
    try:
        note(again)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4 * MANY, "bytes, less than half a reference to each object"
