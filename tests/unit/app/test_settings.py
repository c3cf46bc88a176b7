"""Where settings come from, which source wins, and what is said about wrong ones."""

import ast
from inspect import getsource
from itertools import pairwise
from pathlib import Path

import pytest
from pydantic import ValidationError

from reconciler.app.from_settings import rules
from reconciler.errors import Rejected
from reconciler.settings import Settings, load


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "settings.yaml"
    path.write_text("writers: 1\nown_drivers: [from-file]\ndrain_seconds: 1.5\n")
    return path


def test_flags_win_over_the_environment_and_that_over_the_file(file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DRA_RECONCILER_WRITERS", "2")
    monkeypatch.setenv("DRA_RECONCILER_OWN_DRIVERS", "a, b")
    found = load({"writers": 3}, file)
    assert (found.writers, found.own_drivers, found.drain_seconds) == (3, frozenset({"a", "b"}), 1.5)


def test_what_nobody_sets_has_its_default():
    assert load({}, None) == Settings()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("wirters: 1", "unknown setting wirters", id="a name that does not exist"),
        pytest.param("writers: many", "writers", id="a wrong type"),
        pytest.param("semantics: '1.2'", "semantics", id="an unknown release"),
        pytest.param("backoff_base_seconds: 0", "backoff_base_seconds", id="out of range"),
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
    path.write_text("wirters: 1\nxyzzyx: 3\nbackoff_base_seconds: 0\n")
    monkeypatch.setenv("DRA_RECONCILER_WRITERS", "0")
    with pytest.raises(Rejected) as caught:
        load({"status_port": -1}, path)
    said = sorted(line.partition(": Input")[0] for line in str(caught.value).splitlines())
    assert said == [
        "setting --status-port",
        "setting DRA_RECONCILER_WRITERS",
        f"setting backoff_base_seconds in {path}",
        f"unknown setting wirters in {path}; did you mean writers?",
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


def test_settings_do_not_change():
    with pytest.raises(ValidationError):
        Settings().writers = 5  # type: ignore[misc]


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
