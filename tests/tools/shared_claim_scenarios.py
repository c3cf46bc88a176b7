"""Scenarios of several gated pods that share a claim: devices whose nodes take all of them."""

from tests.tools.pod_scenarios import HOST, apart, term, web
from tests.tools.scenario import Given, asking, machine, running, sized
from tests.tools.small_fleet import DRA, DRIVER, Object, claim, device_class, devices
from tests.tools.volume_scenarios import NO_PROVISIONER, mounting, storage_class, volume, volume_claim


def across(name: str, *nodes: str) -> Object:
    """A slice with one device that these nodes reach."""
    term = {"matchExpressions": [{"key": HOST, "operator": "In", "values": list(nodes)}]}
    return {
        "apiVersion": DRA,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{name}-slice"},
        "spec": {
            "driver": DRIVER,
            "nodeSelector": {"nodeSelectorTerms": [term]},
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": name}],
        },
    }


def nodes(**cpu: str) -> list[Object]:
    return [sized(machine(name), cpu=amount) for name, amount in cpu.items()]


APART = apart(term(HOST))

LOCAL = [
    storage_class("local", NO_PROVISIONER),
    volume_claim("own-p", "local"),
    volume_claim("own-q", "local"),
]

SHARED_CLAIM_SCENARIOS = {
    "a device whose nodes take both pods that share its claim": Given(
        device_class(),
        *nodes(a="4", b="1", c="4"),
        across("d0", "a", "b"),
        across("d1", "a", "c"),
        claim("x"),
        asking("p", "x", cpu="4"),
        asking("q", "x", cpu="4"),
    ).then({"pod p": "a: d1"}, apart=frozenset({"pod p"})),
    "a node that takes both pods that share a claim": Given(
        device_class(),
        *nodes(a="4", b="8"),
        devices("a", "d0"),
        devices("b", "d1"),
        claim("x"),
        asking("p", "x", cpu="4"),
        asking("q", "x", cpu="3"),
    ).then({"pod p": "b: d1"}, apart=frozenset({"pod p"})),
    "pods with anti-affinity share a device of several nodes": Given(
        device_class(),
        *nodes(a="8", b="8"),
        devices("a", "d0"),
        across("d1", "a", "b"),
        claim("x"),
        web(asking("p", "x", cpu="1", **APART)),
        web(asking("q", "x", cpu="1", **APART)),
    ).then({"pod p": "a: d1"}, apart=frozenset({"pod p"})),
    "pods that share a claim and fit nowhere together get nothing": Given(
        device_class(),
        *nodes(a="4", b="4"),
        across("d0", "a", "b"),
        running("busy", "b", "2"),
        claim("x"),
        asking("p", "x", cpu="3"),
        asking("q", "x", cpu="3"),
    ).then({"pod p": "PodsCompete", "pod q": "PodsCompete"}, apart=frozenset({"pod p", "pod q"})),
    "each pod must fit on the nodes of its own claims": Given(
        device_class(),
        *nodes(a="4", b="4"),
        across("d0", "a", "b"),
        devices("a", "d1"),
        *map(claim, "xy"),
        asking("p", "x", "y", cpu="3"),
        asking("q", "x", cpu="3"),
    ).then({"pod p": "a: d0 d1"}, apart=frozenset({"pod p"})),
    "a device whose nodes have volumes for both pods that share its claim": Given(
        device_class(),
        *nodes(a="8", b="8", c="8"),
        *LOCAL,
        volume("v", "a", "local"),
        volume("w", "c", "local"),
        across("d0", "a", "b"),
        across("d1", "a", "c"),
        claim("x"),
        asking("p", "x", **mounting("own-p")),
        asking("q", "x", **mounting("own-q")),
    ).then({"pod p": "a: d1"}, apart=frozenset({"pod p"})),
    "pods that share a claim and have one volume for both get nothing": Given(
        device_class(),
        *nodes(a="8", b="8"),
        *LOCAL,
        volume("v", "", "local"),
        across("d0", "a", "b"),
        claim("x"),
        asking("p", "x", **mounting("own-p")),
        asking("q", "x", **mounting("own-q")),
    ).then({"pod p": "PodsCompete", "pod q": "PodsCompete"}, apart=frozenset({"pod p", "pod q"})),
}
