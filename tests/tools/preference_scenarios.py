"""Manifests in which a pod prefers node b, which comes after node a."""

from tests.tools.naive_policies import GPUS
from tests.tools.scenario import Scenario, asking, fleet, machine, running
from tests.tools.small_fleet import Object, claim

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
WEB = {"matchLabels": {"app": "web"}}


def affinity(kind: str, *terms: Object) -> Object:
    """What a pod prefers."""
    return {"affinity": {kind: {PREFERRED: list(terms)}}}


def near(key: str) -> Object:
    """Pods with the label `app: web`, in the same domain."""
    return {"weight": 10, "podAffinityTerm": {"topologyKey": key, "labelSelector": WEB}}


def on(name: str) -> Object:
    """A node by name."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]}]
    return {"weight": 10, "preference": {"matchFields": fields}}


def web(pod: Object) -> Object:
    """The same pod with the label `app: web`."""
    return {**pod, "metadata": {**pod["metadata"], "labels": {"app": "web"}}}


A, B = machine("a", zone="z1"), machine("b", zone="z2")
TAINTED = machine("a", spec={"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}, zone="z1")
ON_A, ON_B = ({"pod p": f"{node}: d0"} for node in "ab")
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": WEB}


def equal(pod: Object, *others: Object, first: Object = A) -> Scenario:
    """Two nodes that best fit finds equal."""
    return Scenario([*fleet(first, B), *others, claim("c"), pod], ON_B, policy=("best-fit",))


PREFERS_B = asking("p", "c", **affinity("nodeAffinity", on("b")))
PREFERENCE_SCENARIOS = {
    "preferred node affinity decides between equal nodes": equal(
        asking("p", "c", **affinity("nodeAffinity", on("b")))
    ),
    "a pod avoids a node with a soft taint": equal(asking("p", "c"), first=TAINTED),
    "a pod stays away from others that do not like it": equal(
        web(asking("p", "c")), running("w", "a", "1", **affinity("podAntiAffinity", near("zone")))
    ),
    "soft spread decides between equal nodes": equal(
        web(asking("p", "c", topologySpreadConstraints=[SPREAD])), web(running("w", "a", "1"))
    ),
    "preferences come after the policy": Scenario([*GPUS, claim("c"), PREFERS_B], ON_A, policy=("spread",)),
    "preferences come before the policy if they are first": Scenario(
        [*GPUS, claim("c"), PREFERS_B], ON_B, policy=("spread",), preferences="first"
    ),
    "preferences do not count under first fit": Scenario([*GPUS, claim("c"), PREFERS_B], ON_A),
    "preferences count under first fit if they are asked for": Scenario(
        [*GPUS, claim("c"), PREFERS_B], ON_B, preferences="last"
    ),
    "preferences that are off do not count": Scenario(
        [*fleet(A, B), claim("c"), PREFERS_B], ON_A, policy=("best-fit",), preferences="off"
    ),
    "a preferred node without enough devices refuses nothing": Scenario(
        [*GPUS, claim("c", 2), PREFERS_B], {"pod p": "a: d0 d1"}, preferences="first"
    ),
}
