"""Kubeconfig files are merged as the real kubectl merges them, if it is installed."""

import json
import os
import shutil
import subprocess
from base64 import b64decode
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from reconciler.cluster.target import choose_target, kubeconfig_places, merge_kubeconfigs
from reconciler.errors import Rejected
from tests.tools.patience import PATIENCE

KUBECTL = shutil.which("kubectl") or ""
pytestmark = pytest.mark.skipif(not KUBECTL, reason="kubectl is not installed")

NAMES = ("red", "blue", "green")


def kubectl(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [KUBECTL, "config", *arguments], capture_output=True, text=True, check=False, timeout=PATIENCE
    )


def some(chance: Random) -> list[str]:
    return [name for name in NAMES if chance.random() < 0.6]


def drawn_file(chance: Random, folder: Path) -> dict[str, Any]:
    """A kubeconfig with some of the names; where paths are relative, with the files that they name."""
    folder.mkdir()
    clusters = []
    for name in some(chance):
        cluster = {"server": f"https://{name}.{folder.name}.example.com"}
        if chance.random() < 0.5:
            (folder / "ca.crt").write_text(f"authority in {folder.name}")
            cluster["certificate-authority"] = "ca.crt"
        clusters.append({"name": name, "cluster": cluster})
    users = []
    for name in some(chance):
        if chance.random() < 0.5:
            (folder / "me.crt").write_text(f"certificate in {folder.name}")
            users.append({"name": name, "user": {"client-certificate": "me.crt"}})
        else:
            users.append({"name": name, "user": {"token": f"{name} of {folder.name}"}})
    contexts = [
        {
            "name": name,
            "context": {"cluster": chance.choice(NAMES), "user": chance.choice(NAMES)}
            | ({"namespace": f"team-{folder.name}"} if chance.random() < 0.5 else {}),
        }
        for name in some(chance)
    ]
    found: dict[str, Any] = {"clusters": clusters, "users": users, "contexts": contexts}
    if chance.random() < 0.5:
        found["current-context"] = chance.choice((*NAMES, ""))
    return found


def by_name(section: str, entries: list[dict[str, Any]] | None) -> dict[str, Any]:
    field = section.removesuffix("s")
    return {one["name"]: {key: v for key, v in one[field].items() if v} for one in entries or []}


def with_data(values: dict[str, Any]) -> dict[str, Any]:
    """Paths replaced by the content of their files, as `kubectl config view --flatten` does."""
    found = {}
    for key, value in values.items():
        if key in ("certificate-authority", "client-certificate"):
            assert Path(value).is_absolute()
            found[f"{key}-data"] = Path(value).read_text()
        else:
            found[key] = value
    return found


def decoded(values: dict[str, Any]) -> dict[str, Any]:
    return {k: b64decode(v).decode() if k.endswith("-data") else v for k, v in values.items()}


@pytest.mark.parametrize("seed", range(12))
def test_several_files_are_merged_as_kubectl_merges_them(tmp_path, monkeypatch, seed):
    chance = Random(seed)
    files = []
    for number in range(chance.randint(2, 4)):
        folder = tmp_path / f"f{number}"
        found = drawn_file(chance, folder)
        text = "" if chance.random() < 0.1 else yaml.safe_dump(found)
        if chance.random() < 0.85:
            (folder / "config").write_text(text)
        files.append(os.path.relpath(folder / "config", tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(["", *files, files[0], ""]))
    theirs = json.loads(kubectl("view", "--raw", "--flatten", "-o", "json").stdout)
    ours = merge_kubeconfigs(kubeconfig_places(None))
    for section in ("clusters", "contexts", "users"):
        mine = {name: with_data(v) for name, v in by_name(section, ours.value[section]).items()}
        assert mine == {name: decoded(v) for name, v in by_name(section, theirs[section]).items()}
    assert ours.value["current-context"] == (theirs["current-context"] or "")
    _same_choice(ours.value["current-context"])


def _same_choice(current: str) -> None:
    """Server and namespace of the current context, where kubectl finds the context complete."""
    minified = kubectl("view", "--minify", "--raw", "-o", "json")
    if minified.returncode or not current:
        return
    theirs = json.loads(minified.stdout)
    if not theirs["clusters"] or not theirs["users"]:
        with pytest.raises(Rejected, match="is missing"):
            choose_target(server=None, kubeconfig=None, context=None)
        return
    target = choose_target(server=None, kubeconfig=None, context=None)
    assert (target.context, target.server) == (current, theirs["clusters"][0]["cluster"]["server"])
    assert target.namespace == theirs["contexts"][0]["context"].get("namespace", "default")


@pytest.mark.parametrize(
    "bad",
    ["[1]", "{a", "clusters: 3", "current-context: 3", "clusters: [{name: a}, {name: a}]", "users: [{}, {}]"],
)
def test_what_kubectl_rejects_is_rejected_and_named(tmp_path, monkeypatch, bad):
    (tmp_path / "bad").write_text(bad)
    (tmp_path / "good").write_text("current-context: red")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/bad{os.pathsep}{tmp_path}/good")
    assert kubectl("view").returncode != 0
    with pytest.raises(Rejected, match=f"{tmp_path}/bad"):
        merge_kubeconfigs(kubeconfig_places(None))


def test_a_folder_is_no_kubeconfig(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path))
    assert kubectl("view").returncode != 0
    with pytest.raises(Rejected, match=str(tmp_path)):
        merge_kubeconfigs(kubeconfig_places(None))


def test_an_option_names_one_file(tmp_path, monkeypatch):
    """KUBECONFIG is a list of files, --kubeconfig is not."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a").write_text("current-context: red")
    both = f"{tmp_path}/a{os.pathsep}{tmp_path}/a"
    assert kubectl("current-context", "--kubeconfig", both).returncode != 0
    with pytest.raises(Rejected, match="there is no kubeconfig at"):
        choose_target(server=None, kubeconfig=both, context=None)
