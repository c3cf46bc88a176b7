"""A scenario of the tests of all front ends, and the objects it is made of."""

from dataclasses import dataclass, field
from typing import Any

from reconciler.allocation.policies.names import Weighing
from reconciler.allocation.policies.selection import Policies, parse_policies
from tests.tools.small_fleet import Object, device_class, devices, node, pod

Expected = dict[str, str]
"""Unit -> `node: device device`, or the identifier of a reason; in the order in which they are decided"""


@dataclass(frozen=True)
class Scenario:
    """A few objects, with the verdicts on those that wait."""

    objects: list[Object]
    expected: Expected
    files: Expected | None = None
    """What front ends that read manifests say, where they differ"""
    live_order: bool = True
    """Whether the live loop decides in the same order. Pods that wait are decided later"""
    apart: frozenset[str] = field(default=frozenset())
    """Units that cannot be asked about with `whatif`: it takes claims and pods that are whole and wait"""

    policy: tuple[str, ...] = ()
    """As `--policy` takes them"""

    preferences: str | None = None
    """As `--preferences` takes it"""

    @property
    def policies(self) -> Policies:
        weighing = None if self.preferences is None else Weighing(self.preferences)
        return Policies(parse_policies(self.policy), preferences=weighing)

    @property
    def of_files(self) -> Expected:
        return self.expected if self.files is None else self.files


class Given:
    """The objects of a scenario. `then` says the verdicts on them."""

    def __init__(self, *objects: Object) -> None:
        self.objects = list(objects)

    def then(self, expected: Expected, files: Expected | None = None, **options: Any) -> Scenario:
        return Scenario(self.objects, expected, files, **options)


def machine(name: str, *, spec: Object | None = None, ready: str = "True", **labels: str) -> Object:
    """A node as a kubelet reports it."""
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    return {**node(name, **{"kubernetes.io/hostname": name, **labels}), "spec": spec or {}, "status": status}


def sized(found: Object, **allocatable: str) -> Object:
    """The same node, with that much room."""
    status = {**found["status"], "allocatable": {"pods": "110", **allocatable}}
    return {**found, "status": status}


def made(found: Object, created: str) -> Object:
    """The same object, created then."""
    return {**found, "metadata": {**found["metadata"], "creationTimestamp": created}}


def asking(name: str, *claims: str, cpu: str = "", **spec: Any) -> Object:
    """A gated pod with these claims."""
    container: Object = {"name": "main", "image": "example.com/main"}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    return pod(name, *claims, **{"containers": [container], **spec})


def running(name: str, on: str, cpu: str, **spec: Any) -> Object:
    """A pod without claims that is bound."""
    return {**asking(name, cpu=cpu, nodeName=on, schedulingGates=[], **spec), "status": {"phase": "Running"}}


def fleet(*nodes: Object, count: int = 2) -> list[Object]:
    """The nodes with so many devices each."""
    slices = [devices(one["metadata"]["name"], *(f"d{n}" for n in range(count))) for one in nodes]
    return [device_class(), *nodes, *slices]
