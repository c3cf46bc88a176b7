"""Objects of a small world, drawn at random."""

import json
from collections.abc import Mapping
from typing import Any
from zlib import crc32

from hypothesis import strategies as st

from reconciler.api.objects.semantics import (
    COMPATIBILITY_GROUPS,
    CONSUMABLE_CAPACITY,
    GATES,
    LIST_ATTRIBUTES,
    PARTITIONABLE_DEVICES,
    TAINT_RULES,
    Semantics,
    with_group_modes,
)
from tests.tools.builders import (
    Object,
    claim,
    counter_slice,
    device,
    device_class,
    hold,
    labelled,
    node,
    node_selector,
    resource_slice,
    taint,
    taint_rule,
    version,
)

KINDS = ("ResourceSlice", "DeviceClass", "Node", "DeviceTaintRule", "ResourceClaim")
POOLS = st.sampled_from([("d", "p"), ("d", "q"), ("e", "p")])
NAMES = st.sampled_from(["A", "B", "C"])
CLAIMS = ("c1", "c2")
FIRST = {name: {"uid": f"{name}-u1", "resourceVersion": "10500"} for name in CLAIMS}
UIDS = ("u1", "u1", "u2")
SHARED: Object = {"allowMultipleAllocations": True}

RULES = [
    Semantics(),
    Semantics("1.36"),
    Semantics("1.36", frozenset(GATES) - {LIST_ATTRIBUTES, TAINT_RULES}),
    Semantics(gates=frozenset(GATES) - {PARTITIONABLE_DEVICES}),
    Semantics(gates=frozenset(GATES) - {CONSUMABLE_CAPACITY}),
    Semantics(gates=frozenset(GATES) - {COMPATIBILITY_GROUPS}),
    Semantics(group_modes=with_group_modes(["d=pairwise"])),
]


PLACES: list[Object] = [
    {"nodeName": "n"},
    {"nodeName": "m"},
    {"allNodes": True},
    {"nodeSelector": node_selector(labelled("zone", "a"))},
    {"nodeSelector": node_selector({"matchExpressions": [{"key": "zone", "operator": "Near"}]})},
    {},
]

PER_DEVICE = [place for place in PLACES if place]

DRAWS: st.SearchStrategy[Mapping[str, Mapping[str, str | int]]] = st.sampled_from(
    [
        {},
        {"g": {"m": 20}},
        {"g": {"m": 40, "k": "1m"}},
        {"g": {"m": 10}, "h": {"x": "3Gi"}},
        {"g": {"m": 0}},
        {"h": {"x": 1}},
    ]
)
STATED: st.SearchStrategy[Object] = st.sampled_from(
    [
        {},
        {},
        {"compatibleOnlyWith": {"expression": 'device.attributes["d"].model == "x"'}},
        {"compatibleOnlyWith": {"expression": "device.allowMultipleAllocations"}},
        {"compatibleOnlyWith": {"expression": "no CEL"}},
    ]
)
GROUPS: st.SearchStrategy[Object] = st.sampled_from(
    [{}, {}, *({"compatibilityGroups": groups} for groups in (["a"], ["a", "b"], ["c"]))]
)
TAINTS = st.lists(st.sampled_from(["t1", "t2"]).map(taint), unique_by=lambda t: t["key"], max_size=2)


@st.composite
def some_devices(draw: st.DrawFn, *, per_device: bool) -> list[Object]:
    found = []
    for name in draw(st.lists(NAMES, max_size=3)):
        attributes: Mapping[str, Any] = draw(
            st.sampled_from([{}, {"model": "x"}, {"model": 1, "e/model": "x"}, {"v": version("no")}])
        )
        fields: Object = draw(st.sampled_from(PER_DEVICE)) if per_device else {}
        taints = draw(TAINTS)
        if draw(st.booleans()):
            fields = {**fields, **SHARED}
        made = device(
            name,
            attributes,
            draw(st.sampled_from([{}, {"mem": "4Gi"}, {"d/mem": "1Gi", "mem": "4Gi"}])),
            draw(DRAWS),
            **fields,
            **draw(STATED),
            **({"taints": taints} if taints else {}),
        )
        for entry in made.get("consumesCounters", ()):
            entry.update(draw(GROUPS))
        found.append(made)
    return found


@st.composite
def slices(draw: st.DrawFn) -> Object:
    driver, pool = draw(POOLS)
    per_device = draw(st.booleans())
    fields: Object = {
        "driver": driver,
        "pool": pool,
        "generation": draw(st.sampled_from([1, 1, 2])),
        "slices": draw(st.sampled_from([1, 2, 2])),
        **({"perDeviceNodeSelection": True} if per_device else draw(st.sampled_from(PLACES))),
    }
    name = draw(st.sampled_from(["s-1", "s-10", "s-2", "t"]))
    if draw(st.sampled_from([False, False, True])):
        g, h = {"g": {"m": 40, "k": "3m"}}, {"h": {"x": "8Gi"}}
        sets: Mapping[str, Any] = draw(st.sampled_from([{**g, **h}, g, {"h": {"x": "5Gi"}}]))
        return counter_slice(name, sets, **fields)
    return resource_slice(name, draw(some_devices(per_device=per_device)), **fields)


NODES = st.builds(
    lambda name, labels: node(name, **labels),
    st.sampled_from(["n", "m", "o"]),
    st.sampled_from([{}, {"zone": "a"}, {"zone": "b"}]),
)
CLASSES = st.builds(device_class, st.sampled_from("ab"), st.sampled_from("xy"))
TAINT_RULES_ = st.builds(
    taint_rule,
    st.sampled_from(["r1", "r2"]),
    st.sampled_from([None, {}, {"driver": "d"}, {"pool": "p", "device": "A"}, {"driver": "nobody"}]),
    st.sampled_from(["t1", "t2", "t3"]).map(taint),
)


@st.composite
def allocations(draw: st.DrawFn) -> Object:
    results = []
    for number in range(draw(st.integers(0, 3))):
        driver, pool = draw(POOLS)
        fields: Object = draw(
            st.sampled_from(
                [
                    {},
                    {},
                    {"shareID": f"share-{number}", "consumedCapacity": {"mem": "1Gi"}},
                    {"shareID": f"share-{number}"},
                    {"adminAccess": True},
                ]
            )
        )
        results.append(hold(draw(NAMES | st.just("gone")), driver=driver, pool=pool, **fields))
    return {"devices": {"results": results}}


@st.composite
def claims(draw: st.DrawFn) -> Object:
    made = claim(draw(st.sampled_from(CLAIMS)))
    uid = f"{made['metadata']['name']}-{draw(st.sampled_from(UIDS))}"
    if draw(st.booleans()):
        made["status"] = {"allocation": draw(allocations())}
    # One version is one content, as on a server; which of several contents is the newest is drawn.
    version = draw(st.sampled_from([9, 10, 10, 11])) * 1000 + crc32(json.dumps(made).encode()) % 1000
    made["metadata"] |= {"uid": uid, "resourceVersion": str(version)}
    return made


OBJECTS: dict[str, st.SearchStrategy[Object]] = {
    "ResourceSlice": slices(),
    "DeviceClass": CLASSES,
    "Node": NODES,
    "DeviceTaintRule": TAINT_RULES_,
    "ResourceClaim": claims(),
}
