"""The smallest plugin: `docs/plugins.md` shows it. Parking spots of lots, for pods that ask for some."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Literal

import pytest
import yaml
from click.testing import CliRunner
from pydantic import Field

from reconciler.allocation.explanation import Advice, Explanation, Section
from reconciler.allocation.pod_devices import HeldDevices, PodDevices, PodGrant, PodRefusal
from reconciler.allocation.reason_table import REASONS, remedy
from reconciler.analysis.doctor.checks import Checks
from reconciler.analysis.doctor.findings import DoctorInput, Finding, Rule, Severity
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ApiObject, DeviceID, ObjectKey
from reconciler.api.objects.model import Int, Model
from reconciler.api.plugins import PLUGINS
from reconciler.cli import main
from reconciler.plugins.plugin import Plugin, register
from tests.tools.small_fleet import node

# ruff: noqa: ARG002 - not every answer needs everything

WANTED = "example.com/spots"
FULL = "LotsFull"
EMPTY = Rule("empty-lot", Severity.WARNING, "A lot has no spots.", "Set spec.spots.")


class LotSpec(Model):
    """What it has."""

    spots: Int = 0


class Lot(ApiObject):
    """The spots of the node that has the object's name."""

    UNREAD: ClassVar = frozenset({"apiVersion"})
    kind: Literal["Lot"] = "Lot"
    spec: LotSpec = Field(default_factory=LotSpec)


class Parking(Plugin):
    name: ClassVar = "parking"
    title: ClassVar = "spots of lots"
    models: ClassVar = {"example.com/v1": Lot}
    advice: ClassVar = {FULL: Advice("No lot has enough spots.", "Wait.", Section.WAIT)}

    def requests(self, pod: Pod) -> bool:
        return WANTED in pod.metadata.annotations

    def offline(
        self, objects: Iterable[ApiObject], pods: Iterable[Pod], options: Mapping[str, str]
    ) -> PodDevices | None:
        lots = {one.key.name: one.spec.spots for one in objects if isinstance(one, Lot)}
        return Spots(lots) if lots else None

    def checks(self) -> Checks:
        return Checks((EMPTY,), (empty_lots,))


class Spots(PodDevices):
    """So many spots are free on each node."""

    offered: frozenset[str] = frozenset()
    notes = ()
    held: Mapping[ObjectKey, HeldDevices] = {}

    def __init__(self, free: dict[str, int]) -> None:
        self.free, self.nodes = free, sorted(free)

    def refusal(self, pod: Pod) -> PodRefusal | None:
        return None

    def place(
        self, pod: Pod, can_run: Callable[[str], bool], left_out: Callable[[], str]
    ) -> PodGrant | PodRefusal:
        wanted = int(pod.metadata.annotations[WANTED])
        for name in filter(can_run, self.nodes):
            if self.free[name] >= wanted:
                self.free[name] -= wanted
                held = HeldDevices(name, (("spot", DeviceID("spot", name, str(self.free[name]))),))
                return PodGrant(pod, held, (("spot", str(wanted)),), "", [])
        return PodRefusal(FULL, f"no lot has {wanted} free spots")

    def explain(self, pod: Pod, can_run: Callable[[str], bool], left_out: Callable[[], str]) -> Explanation:
        return Explanation((), "", FULL, "", remedy(FULL), len(self.nodes), pod=pod.key)


def empty_lots(data: DoctorInput) -> Iterator[Finding]:
    for entry, lot in data.of(Lot):
        if not lot.spec.spots:
            yield EMPTY.finding(entry, "spec.spots", "is 0")


@pytest.fixture(autouse=True)
def parking() -> Iterator[None]:
    plugin = Parking()
    register(plugin)
    yield
    PLUGINS.remove(plugin)
    del REASONS[FULL]


def lot(name: str, spots: int) -> dict[str, Any]:
    spec = {"spots": spots}
    return {"apiVersion": "example.com/v1", "kind": "Lot", "metadata": {"name": name}, "spec": spec}


def car(name: str, spots: int) -> dict[str, Any]:
    metadata = {"name": name, "annotations": {WANTED: str(spots)}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "c"}]}}


def ask(*command: str, objects: list[Any]) -> tuple[int, str]:
    found = CliRunner().invoke(main, [*command, "-f", "-"], input=yaml.safe_dump_all(objects))
    return found.exit_code, found.stdout


def test_pods_get_its_devices_and_the_others_a_reason():
    objects = [node("a"), node("b"), lot("a", 1), lot("b", 3), car("x", 2), car("y", 2)]
    code, said = ask("allocate", objects=objects)
    assert (code, "default/x  b     spot    2" in said) == (1, True), said
    assert "not allocated: pod default/y: no lot has 2 free spots" in said


def test_a_pod_is_explained():
    code, said = ask("explain", "--pod", "y", "-o", "json", objects=[node("a"), lot("a", 1), car("y", 2)])
    (told,) = json.loads(said)
    assert (code, told["reason"], told["remedy"]) == (1, FULL, "Wait.")


def test_doctor_runs_its_checks():
    _, said = ask("doctor", objects=[lot("a", 0)])
    assert "spec.spots" in said
    assert "Set spec.spots." in said
