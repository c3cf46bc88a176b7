"""How the parts of a run are put together: by constructors alone, and without running any of them."""

import ast
import asyncio
import re
from collections.abc import Iterator
from inspect import getsource
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import ValidationError

from reconciler.app.from_settings import rules, terms_of
from reconciler.app.lifecycle import Parts, build
from reconciler.cluster.http import connect
from reconciler.control.decisions.allocating import WritesPaused
from reconciler.control.decisions.declaration import Decision
from reconciler.embedded import serve
from reconciler.errors import Rejected
from reconciler.operations.serving.access import local_only
from reconciler.operations.serving.port import StatusPort
from reconciler.settings import REMOVED, Settings, load
from tests.tools.checkout import ROOT
from tests.tools.faulty_transport import Faulty
from tests.tools.running_reconciler import Cluster
from tests.tools.small_fleet import claim, device_class, devices, node
from tests.tools.tuned import tuned

APP = sorted((ROOT / "reconciler" / "app").glob("*.py"))
MOST_LINES = 60
MOVING = ("watch poddisruptionbudgets", "rebalance")
WATCHES = [
    "watch nodes", "watch pods", "watch resourceslices", "watch resourceclaims", "watch deviceclasses",
    "watch devicetaintrules", "watch namespaces on demand", "watch podgroups.scheduling.k8s.io on demand",
    "watch compositepodgroups.scheduling.k8s.io on demand", "watch podgroups.scheduling.x-k8s.io on demand",
    "watch persistentvolumes on demand", "watch persistentvolumeclaims on demand",
    "watch storageclasses.storage.k8s.io on demand", "watch csinodes.storage.k8s.io on demand",
    "watch csidrivers.storage.k8s.io on demand", "watch csistoragecapacities.storage.k8s.io on demand",
    "watch volumeattachments.storage.k8s.io on demand",
]  # fmt: skip


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for found in ast.walk(ast.parse(path.read_text())):
        if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef):
            yield found


def attributes_set(function: ast.AST) -> Iterator[str]:
    """Every `thing.name = ...` in a function."""
    for found in ast.walk(function):
        if isinstance(found, ast.Attribute) and isinstance(found.ctx, ast.Store):
            yield ast.unparse(found)


@pytest.mark.parametrize("path", APP, ids=lambda path: path.name)
def test_nothing_is_set_on_a_part_after_it_was_built(path: Path):
    late = [
        name
        for function in functions(path)
        for name in attributes_set(function)
        if function.name != "__init__" or not name.startswith("self.")
    ]
    assert late == []


@pytest.mark.parametrize("path", APP, ids=lambda path: path.name)
def test_no_function_is_longer_than_a_screen(path: Path):
    lengths = {one.name: (one.end_lineno or one.lineno) - one.lineno + 1 for one in functions(path)}
    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}


class Built(NamedTuple):
    parts: Parts
    writes: list[str]
    decisions: list[Decision]


async def built(*, port: bool = False, **flags: Any) -> Built:
    """The parts of a process with these settings, and what was written and decided while it was built."""
    cluster = Cluster([node("n"), device_class(), devices("n", "d0"), claim("a")])
    async with serve(cluster.api) as url, connect(server=url) as transport:
        faulty = Faulty(transport)
        settings = tuned(embedded=True, **flags)
        status = StatusPort(local_only) if port else None
        told: list[Decision] = []
        parts = await build(settings, faulty, stop=asyncio.Event(), on_decision=told.append, port=status)
        return Built(parts, faulty.sent, told)


@pytest.mark.loopback
async def test_building_starts_no_task_and_writes_nothing():
    before = asyncio.all_tasks()
    parts, writes, decisions = await built()
    assert (writes, decisions) == ([], [])
    names = {task.get_name() for task in asyncio.all_tasks() - before}
    assert names.isdisjoint(job.name for job in parts.jobs)
    assert not any(name.startswith("worker") for name in names)


@pytest.mark.loopback
@pytest.mark.parametrize(
    ("flags", "jobs"),
    [
        pytest.param(
            {},
            [
                "audit",
                "notices",
                "unmanaged claims",
                *MOVING,
                "expire nominations",
                "forget deleted units",
                "spare the collector",
            ],
            id="no port",
        ),
        pytest.param(
            {"events": False},
            [
                "audit",
                "unmanaged claims",
                *MOVING,
                "expire nominations",
                "forget deleted units",
                "spare the collector",
            ],
            id="no Events",
        ),
        pytest.param(
            {"port": True},
            [
                "audit",
                "heartbeat",
                "notices",
                "unmanaged claims",
                "rounds of the doctor",
                *MOVING,
                "expire nominations",
                "forget deleted units",
                "spare the collector",
            ],
            id="port",
        ),
        pytest.param(
            {"port": True, "doctor_seconds": 0},
            [
                "audit",
                "heartbeat",
                "notices",
                "unmanaged claims",
                *MOVING,
                "expire nominations",
                "forget deleted units",
                "spare the collector",
            ],
            id="no doctor",
        ),
        pytest.param(
            {"pause_config_map": "ns/switch"},
            [
                "audit",
                "watch the switch",
                "notices",
                "unmanaged claims",
                *MOVING,
                "expire nominations",
                "forget deleted units",
                "spare the collector",
            ],
            id="switch",
        ),
        pytest.param(
            {"events": False, "kueue_check": "room", "provisioning_requests": "class"},
            [
                "audit",
                "unmanaged claims",
                *MOVING,
                "watch provisioning requests",
                "provisioning",
                "watch workloads.kueue.x-k8s.io for Kueue",
                "watch admissionchecks.kueue.x-k8s.io for Kueue",
                "watch resourceflavors.kueue.x-k8s.io for Kueue",
                "watch resourceclaimtemplates.resource.k8s.io for Kueue",
                "admission check",
                "expire nominations",
                "forget deleted units",
                "spare the collector",
            ],
            id="Kueue and autoscalers",
        ),
        pytest.param(
            {"mode": "shadow", "pause_config_map": "ns/switch", "kueue_check": "room"},
            ["audit", "expire nominations", "forget deleted units", "spare the collector"],
            id="shadow",
        ),
    ],
)
async def test_what_runs_beside_the_workers_follows_from_the_settings(flags: dict[str, Any], jobs: list[str]):
    parts = (await built(**flags)).parts
    assert [job.name for job in parts.jobs] == [*WATCHES, *jobs]
    assert (parts.shadow is not None) == (flags.get("mode") == "shadow")


@pytest.mark.loopback
async def test_what_is_paused_by_a_setting_is_paused_before_anything_runs():
    (paused,) = (await built(pause=True)).decisions
    assert isinstance(paused, WritesPaused)


# -- Where settings come from, which source wins, and what is said about wrong ones.


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "settings.yaml"
    path.write_text("status_port: 1\nown_drivers: [from-file]\nlease_seconds: 1.5\n")
    return path


def test_flags_win_over_the_environment_and_that_over_the_file(file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DRA_RECONCILER_STATUS_PORT", "2")
    monkeypatch.setenv("DRA_RECONCILER_OWN_DRIVERS", "a, b")
    found = load({"status_port": 3}, file)
    assert (found.status_port, found.own_drivers, found.lease_seconds) == (3, frozenset({"a", "b"}), 1.5)


def test_what_nobody_sets_has_its_default():
    assert load({}, None) == Settings()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("polciy: a", "unknown setting polciy", id="a name that does not exist"),
        pytest.param("status_port: many", "status_port", id="a wrong type"),
        pytest.param("semantics: '1.2'", "semantics", id="an unknown release"),
        pytest.param("lease_seconds: 0", "lease_seconds", id="out of range"),
        pytest.param("- a", "must be a mapping", id="no mapping"),
        pytest.param("a: [", "settings.yaml", id="no YAML"),
    ],
)
def test_a_wrong_file_is_rejected_with_the_place(tmp_path: Path, text: str, message: str):
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    with pytest.raises(Rejected, match=message):
        load({}, path)


def test_all_wrong_settings_are_named_at_once_as_they_were_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "settings.yaml"
    path.write_text("polciy: 1\nxyzzyx: 3\nlease_seconds: 0\nwriters: 4\n")
    monkeypatch.setenv("DRA_RECONCILER_SEARCH_STEPS", "0")
    with pytest.raises(Rejected) as caught:
        load({"status_port": -1}, path)
    said = sorted(line.partition(": Input")[0] for line in str(caught.value).splitlines())
    assert said == [
        "setting --status-port",
        "setting DRA_RECONCILER_SEARCH_STEPS",
        f"setting lease_seconds in {path}",
        f"setting writers in {path} was removed in 0.4.0: it is always 32",
        f"unknown setting polciy in {path}; did you mean policy?",
        f"unknown setting xyzzyx in {path}",
    ]


def test_an_empty_file_sets_nothing(tmp_path: Path):
    path = tmp_path / "settings.yaml"
    path.touch()
    assert load({}, path) == Settings()


def test_what_kubernetes_puts_into_the_environment_of_our_pod_does_no_harm(monkeypatch: pytest.MonkeyPatch):
    """Every pod beside a Service called dra-reconciler gets these."""
    monkeypatch.setenv("DRA_RECONCILER_PORT", "tcp://10.0.0.1:443")
    monkeypatch.setenv("DRA_RECONCILER_SERVICE_HOST", "10.0.0.1")
    assert load({}, None) == Settings()


@pytest.mark.parametrize("name", REMOVED)
def test_a_removed_setting_of_the_environment_is_an_error_that_says_what_to_do(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    assert name not in Settings.model_fields
    monkeypatch.setenv(f"DRA_RECONCILER_{name.upper()}", "1")
    said = re.escape(f"DRA_RECONCILER_{name.upper()} was removed in 0.4.0: {REMOVED[name]}")
    with pytest.raises(Rejected, match=said):
        load({}, None)


def test_each_removed_setting_is_in_the_guide_to_upgrades():
    text = (ROOT / "docs" / "upgrade.md").read_text(encoding="utf-8")
    assert [name for name in REMOVED if f"`{name}`" not in text] == []


def test_settings_do_not_change():
    with pytest.raises(ValidationError):
        Settings().status_port = 5  # type: ignore[misc]


def test_every_setting_explains_itself():
    """Each field is followed by what it does, its unit, and why its default is what it is."""
    (declared,) = (node for node in ast.parse(getsource(Settings)).body if isinstance(node, ast.ClassDef))
    for field, after in pairwise(declared.body):
        if isinstance(field, ast.AnnAssign):
            assert isinstance(after, ast.Expr), ast.unparse(field)


@pytest.mark.parametrize("given", [["a=pairwise", "*=kep-5963"], "a=pairwise, *=kep-5963"])
def test_group_modes_are_pairs(given: object):
    assert load({"group_modes": given}, None).group_modes == {"a": "pairwise", "*": "kep-5963"}


def test_group_modes_come_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DRA_RECONCILER_GROUP_MODES", "a=pairwise")
    assert load({}, None).group_modes == {"a": "pairwise"}


def test_exclusion_scopes_are_pairs_and_reach_the_rules():
    settings = load({"exclusion_scopes": ("a=pool",)}, None)
    assert settings.exclusion_scopes == {"a": "pool"}
    assert [rules(settings).exclusion_scope(driver) for driver in "ab"] == ["pool", "counter-set"]
    with pytest.raises(Rejected, match="--exclusion-scope"):
        load({"exclusion_scopes": ["a=node"]}, None)


def test_a_group_mode_that_is_not_known_is_refused():
    with pytest.raises(Rejected, match="--group-mode"):
        load({"group_modes": ["a=none"]}, None)


def test_the_duration_of_the_lease_decides_what_has_to_fit_into_it():
    def durations(**given: object) -> tuple[float, ...]:
        found = load(given, None)
        terms_of(found)
        return found.renew_seconds, found.retry_seconds, found.write_seconds

    assert durations() == durations(lease_seconds=15.0) == (10.0, 2.0, 10.0)
    assert durations(lease_seconds="6") == (4.0, 0.6, 3.0)
    assert durations(lease_seconds=60.0) == (40.0, 8.0, 10.0)
