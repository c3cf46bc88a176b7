"""Manifests that a placement policy decides otherwise than first fit."""

from tests.tools.scenario import Scenario, asking, machine, sized
from tests.tools.small_fleet import DRIVER, Object, claim, device_class, devices

NIC = "nic.example.com"


def fleet(driver: str = DRIVER, name: str = "gpu") -> list[Object]:
    """Two free devices on node a, one on node b."""
    return [
        device_class(name, driver),
        devices("a", "d0", "d1", driver=driver),
        devices("b", "d0", driver=driver),
    ]


A, B = (sized(machine(name), cpu="4") for name in "ab")
GPUS = [A, B, *fleet()]
BOTH = [*GPUS, *fleet(NIC, "nic")]

POLICY_SCENARIOS = {
    "best fit leaves the node with more devices": Scenario(
        [*GPUS, claim("c")], {"claim c": "b: d0"}, policy=("best-fit",)
    ),
    "spread takes the node with more devices": Scenario(
        [*GPUS, claim("c1"), claim("c2")], {"claim c1": "a: d0", "claim c2": "a: d1"}, policy=("spread",)
    ),
    "a policy of one driver leaves first fit to others": Scenario(
        [*BOTH, claim("c"), claim("n", device_class="nic")],
        {"claim c": "b: d0", "claim n": "a: d0"},
        policy=(f"{DRIVER}=best-fit",),
    ),
    "a policy of a class counts more than that of its driver": Scenario(
        [*BOTH, claim("c"), claim("n", device_class="nic")],
        {"claim c": "a: d0", "claim n": "b: d0"},
        policy=("best-fit", "class:gpu=first-fit"),
    ),
    "the first request with a policy chooses the node": Scenario(
        [*BOTH, claim("n", device_class="nic"), claim("c"), asking("p", "n", "c")],
        {"pod p": "b: d0 d0"},
        policy=(f"{DRIVER}=best-fit",),
    ),
    "expected fill without a demand takes the first node with room": Scenario(
        [*GPUS, claim("c"), asking("p", "c", cpu="3")], {"pod p": "a: d0"}, policy=("expected-fill",)
    ),
    "a policy never refuses what first fit allocates": Scenario(
        [*GPUS, claim("c", 2)], {"claim c": "a: d0 d1"}, policy=("best-fit",)
    ),
}
