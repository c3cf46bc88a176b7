"""Objects made to hurt: each is something that one driver, or one user, might have put on a server."""

import json
from typing import Any

from reconciler.allocation.alignment.preferences import JOINT
from reconciler.api.versions.extensions import ANNOTATION
from tests.tools.builders import labelled
from tests.tools.small_fleet import DRA

Object = dict[str, Any]
DRIVER = "evil.example.com"
MEGABYTE = 10**6
BOMB = "lists.range(2000).all(x, lists.range(2000).all(y, x + y + {} >= 0))"
"""Costs a million steps on each device"""


def hostile_slice(
    *devices: Object, name: str = "evil", annotations: Object | None = None, **spec: Any
) -> Object:
    """A slice of a driver and a pool of its own, on a node beside others."""
    metadata: Object = {"name": name}
    if annotations is not None:
        metadata["annotations"] = annotations
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": "m", "pool": pool, "devices": list(devices), **spec}
    return {"apiVersion": DRA, "kind": "ResourceSlice", "metadata": metadata, "spec": spec}


def counters(name: str, amounts: dict[str, Any]) -> Object:
    return {"name": name, "counters": {key: {"value": value} for key, value in amounts.items()}}


def drawing(name: str, amounts: dict[str, Any], counter_set: str = "g") -> Object:
    draws = {key: {"value": value} for key, value in amounts.items()}
    return {"name": name, "consumesCounters": [{"counterSet": counter_set, "counters": draws}]}


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


OF_N = f'device.attributes["{DRIVER}"].n + '
ONE = {"counters": {"c": {"value": "1"}}}
MANY = {f"counter-{n}": "1" for n in range(10_000)}
ODD = [
    "NaN", "Inf", "-Inf", "Infinity",
    "1e999999999", "1e-999999999", "0x10", "1_000",
    "٣", "9" * 200, "", "e5",
]  # fmt: skip

SLICES: dict[str, Object] = {
    "ten thousand counters": hostile_slice(drawing("d", MANY), sharedCounters=[counters("g", MANY)]),
    "ten thousand counters, drawn alone": hostile_slice(drawing("d", MANY)),
    "ten thousand counter sets": hostile_slice(
        drawing("d", {"c": "1"}), sharedCounters=[counters(f"g{n}", {"c": "1"}) for n in range(10_000)]
    ),
    "a device that draws from ten thousand sets": hostile_slice(
        {"name": "d", "consumesCounters": [{"counterSet": f"g{n}", **ONE} for n in range(10_000)]},
        sharedCounters=[counters("g0", {"c": "1"})],
    ),
    "negative counters": hostile_slice(
        drawing("d", {"c": "-9E"}), drawing("e", {"c": "9E"}), sharedCounters=[counters("g", {"c": "-5"})]
    ),
    "huge counters": hostile_slice(
        drawing("d", {"c": "9" * 60}),
        drawing("e", {"c": "1n"}),
        sharedCounters=[counters("g", {"c": "9e60"})],
    ),
    "a megabyte of name": hostile_slice({"name": "x" * MEGABYTE}),
    "a megabyte of text": hostile_slice(
        {"name": "d", "attributes": {"a": {"string": "x" * MEGABYTE}, "v": {"version": "1" * MEGABYTE}}}
    ),
    "a megabyte of key": hostile_slice({"name": "d", "attributes": {"k" * MEGABYTE: {"int": 1}}}),
    "a megabyte of driver": hostile_slice({"name": "d"}, driver="d" * MEGABYTE),
    "ten thousand attributes": hostile_slice(
        {"name": "d", "attributes": {f"a{n}": {"int": n} for n in range(10_000)}}
    ),
    "as many attributes as the API allows": hostile_slice(
        *({"name": f"d{n}", "attributes": {f"a{n}-{k}": {"int": k} for k in range(32)}} for n in range(128))
    ),
    "ten thousand devices": hostile_slice(*({"name": f"d{n}"} for n in range(10_000))),
    "ten thousand taints": hostile_slice(
        {"name": "d", "taints": [{"key": f"k{n}", "effect": "NoSchedule"} for n in range(10_000)]}
    ),
    "a list of ten thousand values": hostile_slice(
        {"name": "d", "attributes": {"a": {"strings": [str(n) for n in range(10_000)]}}}
    ),
    "a thousand node selector terms": hostile_slice(
        {"name": "d"},
        nodeName=None,
        nodeSelector={"nodeSelectorTerms": [labelled(f"k{n}", *[str(n)] * 100) for n in range(1000)]},
    ),
    "homoglyphs of a good name": hostile_slice({"name": "d0"}, {"name": "d\u043e"}, {"name": "d0\u200b"}),
    "half characters": hostile_slice({"name": "d\ud800"}),
    "deep nesting": hostile_slice({"name": "d", "attributes": nested(5000)}),
    "deep nesting where nobody reads": hostile_slice({"name": "d", "unknown": nested(5000)}),
    "numbers as wide as the line": hostile_slice(
        {"name": "d", "attributes": {"a": {"int": int("9" * 4000)}}},
        pool={"name": "evil", "generation": int("9" * 4000), "resourceSliceCount": 1},
    ),
    "more slices than there can be": hostile_slice(
        {"name": "d"}, pool={"name": "evil", "generation": 2**70, "resourceSliceCount": 2**70}
    ),
    **{
        f"the quantity {text[:12]!r}": hostile_slice({"name": "d", "capacity": {"m": {"value": text}}})
        for text in ODD
    },
    "a thousand slow expressions": hostile_slice(
        *({"attributes": {"n": {"int": n}}, **drawing(f"d{n}", {"c": "1"})} for n in range(128)),
        sharedCounters=[counters("g", {"c": "1k"})],
        annotations={
            ANNOTATION: json.dumps(
                {
                    f"d{n}": {"compatibleOnlyWith": {"expression": BOMB.format(OF_N + str(n))}}
                    for n in range(128)
                }
            )
        },
    ),
    "an annotation nested deeply": hostile_slice({"name": "d"}, annotations={ANNOTATION: "[" * 100_000}),
    "an annotation of a megabyte": hostile_slice(
        {"name": "d"}, annotations={ANNOTATION: json.dumps({f"d{n}": {"x": "y" * 80} for n in range(10_000)})}
    ),
    "an annotation with a number that is none": hostile_slice({"name": "d"}, annotations={ANNOTATION: "NaN"}),
    "an annotation of a wide number": hostile_slice(
        {"name": "d"}, annotations={ANNOTATION: '{"d": {"x": ' + "9" * 5000 + "}}"}
    ),
}


def hostile_claim(requests: list[Object], name: str = "evil", **metadata: Any) -> Object:
    labels = {"dra-reconciler.io/managed": "true"}
    return {
        "apiVersion": DRA,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "labels": labels, **metadata},
        "spec": {"devices": {"requests": requests}},
    }


def plain(name: str = "r", **fields: Any) -> Object:
    return {"name": name, "exactly": {"deviceClassName": "gpu", **fields}}


def asking(*requests: Object, **fields: Any) -> Object:
    """A claim with constraints or configuration."""
    return {**hostile_claim([]), "spec": {"devices": {"requests": list(requests), **fields}}}


def requests(text: str, *, count: int = 32, alternatives: int = 8, selectors: int = 32) -> list[Object]:
    """Requests with alternatives with selectors, each its own: `text` has a place for a number."""
    return [
        {
            "name": f"r{r}",
            "firstAvailable": [
                {
                    "name": f"s{s}",
                    "deviceClassName": "gpu",
                    "selectors": [
                        {"cel": {"expression": text.format(((r * alternatives) + s) * selectors + n)}}
                        for n in range(selectors)
                    ],
                }
                for s in range(alternatives)
            ],
        }
        for r in range(count)
    ]


CLAIMS: dict[str, Object] = {
    "cheap selectors in great numbers": hostile_claim(requests("device.driver != '{}'")),
    "slow selectors in great numbers": hostile_claim(requests(BOMB)),
    "selectors that are none": hostile_claim(requests("(" * 200 + "{}")),
    "ten thousand requests": hostile_claim([plain(f"r{n}") for n in range(10_000)]),
    "a count beyond all": hostile_claim([plain(count=2**62)]),
    "a count that is wider than a number": hostile_claim([plain(count=10**400)]),
    "ten thousand constraints": asking(
        plain(count=2), constraints=[{"matchAttribute": f"{DRIVER}/a{n}"} for n in range(10_000)]
    ),
    "a megabyte of tolerations": hostile_claim(
        [plain(tolerations=[{"key": f"k{n}", "operator": "Exists"} for n in range(10_000)])]
    ),
    "parameters nested deeply": asking(
        plain(), config=[{"opaque": {"driver": DRIVER, "parameters": {"x": nested(5000)}}}]
    ),
    "preferences nested deeply": hostile_claim([plain()], annotations={JOINT: "[" * 100_000}),
    "a megabyte of preferences": hostile_claim(
        [plain()], annotations={JOINT: '{"x":"' + "y" * MEGABYTE + '"}'}
    ),
}
