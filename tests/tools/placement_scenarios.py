"""Manifests, and what becomes of each pod and claim in them, whoever decides."""

from tests.tools.naive_policies import POLICY_SCENARIOS
from tests.tools.pod_scenarios import POD_SCENARIOS
from tests.tools.preference_scenarios import PREFERENCE_SCENARIOS
from tests.tools.scenario import Expected, Given, Scenario, asking, fleet, machine, made, running, sized
from tests.tools.shared_claim_scenarios import SHARED_CLAIM_SCENARIOS
from tests.tools.small_fleet import DRA, DRIVER, Object, claim, device_class, devices, held
from tests.tools.volume_scenarios import VOLUME_SCENARIOS

OLD, YOUNG = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
LABELLED: Object = {"nodeSelector": {"zone": "z"}}
CORDONED: Object = {"unschedulable": True}
TAINTED: Object = {"taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]}
TOLERATING: Object = {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}


def counted(on: str, published: int) -> list[Object]:
    """Two devices that each draw 4 of a counter."""
    pool = {"name": on, "generation": 1, "resourceSliceCount": 2}
    draws = [{"counterSet": "set", "counters": {"slots": {"value": "4"}}}]
    counters = {
        **devices(on),
        "metadata": {"name": f"{on}-counters"},
        "spec": {
            "driver": DRIVER,
            "nodeName": on,
            "pool": pool,
            "sharedCounters": [{"name": "set", "counters": {"slots": {"value": str(published)}}}],
        },
    }
    drawing = {
        "apiVersion": DRA,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{on}-devices"},
        "spec": {
            "driver": DRIVER,
            "nodeName": on,
            "pool": pool,
            "devices": [{"name": f"d{n}", "consumesCounters": draws} for n in range(2)],
        },
    }
    return [counters, drawing]


A, B = machine("a"), machine("b", zone="z")

__all__ = ["Expected", "Scenario", "asking", "machine", "made", "sized"]

SCENARIOS = {
    "a cordoned node takes no claim": Given(*fleet(machine("a", spec=CORDONED), B), claim("c")).then(
        {"claim c": "b: d0"}
    ),
    "a node that is not ready takes no claim": Given(*fleet(machine("a", ready="False"), B), claim("c")).then(
        {"claim c": "b: d0"}
    ),
    "a claim whose only nodes are cordoned gets none": Given(
        *fleet(machine("a", spec=CORDONED)), claim("c")
    ).then({"claim c": "NoNode"}),
    "a cordoned node takes pods that tolerate the cordon": Given(
        *fleet(machine("a", spec=CORDONED), B),
        *map(claim, "xy"),
        asking("p", "x", tolerations=[{"operator": "Exists"}]),
        asking("q", "y"),
    ).then({"pod p": "a: d0", "pod q": "b: d0"}),
    "taints keep pods out that do not tolerate them, and no claim alone": Given(
        *fleet(machine("a", spec=TAINTED), B),
        *(claim(name) for name in "cxy"),
        asking("p", "x"),
        asking("q", "y", **TOLERATING),
    ).then({"claim c": "a: d0", "pod p": "b: d0", "pod q": "a: d1"}),
    "a full node takes no pod, and a claim alone asks for no room": Given(
        *fleet(sized(A, cpu="2"), sized(B, cpu="4")),
        running("busy", "a", "2"),
        *(claim(name) for name in "cxyz"),
        asking("p", "x", cpu="1"),
        asking("q", "y", cpu="4"),
        asking("r", "z", cpu="3"),
    ).then({"claim c": "a: d0", "pod p": "b: d0", "pod q": "NoNode", "pod r": "b: d1"}),
    "pods take room from the moment their devices are decided": Given(
        *fleet(sized(A, cpu="2"), sized(B, cpu="2")),
        *(claim(name) for name in "xyz"),
        *(asking(name, of, cpu="2") for name, of in zip("pqr", "xyz", strict=True)),
    ).then({"pod p": "a: d0", "pod q": "b: d0", "pod r": "NoNode"}),
    "a pod goes where its labels are": Given(
        *fleet(A, B),
        *map(claim, "xy"),
        asking("p", "x", **LABELLED),
        asking("q", "y", nodeSelector={"zone": "other"}),
    ).then({"pod p": "b: d0", "pod q": "NoNode"}),
    "a node that only slices name is none beside Node objects": Given(
        *fleet(B), devices("a", "d0", "d1"), claim("c"), claim("x"), asking("p", "x")
    ).then({"claim c": "b: d0", "pod p": "b: d1"}),
    "in manifests without Node objects it has no labels but its name": Given(
        device_class(),
        devices("a", "d0", "d1"),
        *map(claim, "xy"),
        asking("p", "x", **LABELLED),
        asking("q", "y", nodeSelector={"kubernetes.io/hostname": "a"}),
    ).then({"pod p": "NoNode", "pod q": "NoNode"}, files={"pod p": "NoNode", "pod q": "a: d0"}),
    "older claims come first, and those without a timestamp last": Given(
        *fleet(A, count=2), claim("a-new"), made(claim("b-young"), YOUNG), made(claim("c-old"), OLD)
    ).then({"claim c-old": "a: d0", "claim b-young": "a: d1", "claim a-new": "DevicesInUse"}),
    "of the same age, names decide": Given(
        *fleet(A, count=2), *(made(claim(name), OLD) for name in "cab")
    ).then({"claim a": "a: d0", "claim b": "a: d1", "claim c": "DevicesInUse"}),
    "pods of higher priority come first, whatever their age": Given(
        *fleet(A, count=3),
        *(claim(name) for name in "xyz"),
        made(claim("alone"), YOUNG),
        made(asking("low", "x", priority=-1), OLD),
        made(asking("plain", "y"), OLD),
        asking("urgent", "z", priority=7),
    ).then({"pod urgent": "a: d0", "pod plain": "a: d1", "claim alone": "a: d2", "pod low": "DevicesInUse"}),
    "a pod uses what it holds where it can": Given(
        *fleet(A, B),
        {**claim("x"), "status": held(DRIVER, "b", "d0", on="b")},
        claim("y"),
        asking("p", "x", "y"),
    ).then({"pod p": "b: d1"}, apart=frozenset({"pod p"})),
    "a pod whose claim is not there waits for it": Given(*fleet(A), asking("p", "nowhere")).then(
        {"pod p": "ClaimNotFound"}, apart=frozenset({"pod p"})
    ),
    "counters are exhausted by the first that comes": Given(
        device_class(), A, *counted("a", 4), made(claim("x"), YOUNG), made(claim("y"), OLD)
    ).then({"claim y": "a: d0", "claim x": "CountersExhausted"}),
    "more than a node has is refused for what it is": Given(
        *fleet(A, B), claim("many", 3), claim("other", device_class="none")
    ).then({"claim many": "NeverFits", "claim other": "ClassNotFound"}),
    **POD_SCENARIOS,
    **POLICY_SCENARIOS,
    **PREFERENCE_SCENARIOS,
    **SHARED_CLAIM_SCENARIOS,
    **VOLUME_SCENARIOS,
}
