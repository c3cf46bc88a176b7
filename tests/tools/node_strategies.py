"""Nodes and pods of all shapes, small enough that they often just fit."""

from typing import Any

from hypothesis import strategies as st

Object = dict[str, Any]
RESOURCES = ("cpu", "memory", "ephemeral-storage", "example.com/nic", "hugepages-2Mi")
AMOUNTS = st.sampled_from(["0", "1", "2", "3", "500m", "1500m", "1e0", "0.1", "1n"])
SIZES = st.sampled_from(["0", "1", "2", "4", "2500m", "8"])
KEYS, VALUES = st.sampled_from(["a", "b"]), st.sampled_from(["", "x"])
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")


def some(values: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, str]]:
    return st.dictionaries(st.sampled_from(RESOURCES), values, max_size=3)


containers = st.builds(
    lambda requests, limits, always: {
        "name": "c",
        "resources": {"requests": requests, "limits": limits},
        **({"restartPolicy": "Always"} if always else {}),
    },
    some(AMOUNTS),
    some(AMOUNTS),
    st.booleans(),
)
tolerations = st.fixed_dictionaries(
    {},
    optional={
        "key": st.sampled_from(
            ["a", "b", "node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready"]
        ),
        "operator": st.sampled_from(["Equal", "Exists", "Gt"]),
        "value": VALUES,
        "effect": st.sampled_from([*EFFECTS, ""]),
    },
)


@st.composite
def pods(draw: st.DrawFn, name: str) -> Object:
    spec: Object = {
        "containers": draw(st.lists(containers, min_size=1, max_size=2)),
        "initContainers": draw(st.lists(containers, max_size=3)),
        "tolerations": draw(st.lists(tolerations, max_size=2)),
        "overhead": draw(some(AMOUNTS)),
        "nodeSelector": draw(st.dictionaries(KEYS, VALUES, max_size=1)),
    }
    if draw(st.booleans()):
        spec["resources"] = {"requests": draw(some(AMOUNTS))}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Object:
    taint = st.fixed_dictionaries({"key": KEYS, "value": VALUES, "effect": st.sampled_from(EFFECTS)})
    allocatable, sized = draw(some(SIZES)), draw(st.booleans())
    if allocatable or sized:
        allocatable["pods"] = draw(st.sampled_from(["0", "1", "2", "9"]))
    conditions = draw(
        st.sampled_from([[], *[[{"type": "Ready", "status": s}] for s in ("True", "False", "Unknown")]])
    )
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": name, "labels": draw(st.dictionaries(KEYS, VALUES))},
        "spec": {
            "taints": draw(st.lists(taint, max_size=2)),
            "unschedulable": draw(st.sampled_from([False, False, True])),
        },
        "status": {"allocatable": allocatable, "conditions": conditions},
    }
