"""`make cluster` says what it lacks, names files and values that exist, and asks programs the right way.

Clusters are not started here: the programs that would do so only note what they are asked.
"""

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.tools import chart
from tests.tools.any_policies import GPU, MIG
from tests.tools.checkout import ROOT

SCRIPT = ROOT / "deploy" / "try-cluster.sh"
TEXT = SCRIPT.read_text()


def test_without_any_program_it_lists_all_that_are_missing(tmp_path: Path):
    (tmp_path / "dirname").symlink_to("/usr/bin/dirname")
    done = subprocess.run(
        ["/bin/sh", str(SCRIPT)], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == ["kind", "docker", "kubectl", "helm"]
    assert "make run" in lines[-1]


def test_the_files_exist_and_the_chart_takes_the_values():
    demo = re.findall(r"\$demo/([\w.-]+)", TEXT)
    assert demo
    assert all((ROOT / "reconciler" / "cli" / "demo" / "manifests" / name).exists() for name in demo)
    given = dict(one.split("=", 1) for one in re.findall(r"--set (\S+)", TEXT.replace("'", "")))
    owned = given.pop("ownDrivers").strip("{}").split(",")
    values = {
        "ownDrivers": owned,
        "image": {key.removeprefix("image."): value for key, value in given.items()},
    }
    chart.validate(values)
    slices = "".join((ROOT / "reconciler" / "cli" / "demo" / "manifests" / name).read_text() for name in demo)
    assert {*owned} == {*re.findall(r"^  driver: (\S+)$", slices, re.MULTILINE)}
    assert shlex.split(TEXT.splitlines()[0].removeprefix("#!")) == ["/bin/sh"]


def test_it_says_which_classes_to_delete_for_the_tests_of_rewritten_pods():
    """These tests make classes of the same names, and skip where there are others."""
    (named,) = re.findall(r"delete deviceclasses (.+)\"$", TEXT, re.MULTILINE)
    classes = (ROOT / "reconciler" / "cli" / "demo" / "manifests" / "10-classes.yaml").read_text()
    assert {*named.split()} == {*re.findall(r"^  name: (\S+)$", classes, re.MULTILINE)} & {GPU, MIG}


RECORD = """#!/bin/sh
{ printf '%s' "${0##*/}"; printf '\\t%s' "$@"; echo; } >> "$RECORD"
case "$*" in
*"get nodes"*) printf 'node/%s\\n' dra-try-control-plane k3d-dra-try-server-0 worker-2 worker-1 ;;
*"image inspect"*) echo "$BUILT" ;;
*"get clusters"* | *"cluster list"*) printf '%s\\n' $CLUSTERS ;;
*"--config -"* | *"apply -f -"*) { echo ---; cat; } >> "$RECORD.yaml" ;;
esac
"""


def started(
    folder: Path, tool: str, *words: str, clusters: str = "", built: str = "sha256:1"
) -> tuple[list[list[str]], list[Any]]:
    """Run the script with programs that only note what they are asked: their words, and what they read.

    `built` is the image that it builds.
    """
    programs = folder / "bin"
    programs.mkdir(parents=True)
    for name in (tool, "docker", "kubectl", "helm"):
        (programs / name).write_text(RECORD)
        (programs / name).chmod(0o755)
    for name in ("dirname", "sed", "grep", "sort", "cat", "cut"):
        (programs / name).symlink_to(str(shutil.which(name)))
    record = folder / "record"
    env = {"PATH": str(programs), "RECORD": str(record), "CLUSTERS": clusters, "BUILT": built}
    subprocess.run(["/bin/sh", str(SCRIPT), *words], env=env, capture_output=True, text=True, check=True)
    given = Path(f"{record}.yaml")
    read = [*yaml.safe_load_all(given.read_text())] if given.exists() else []
    return [line.split("\t") for line in record.read_text().splitlines()], [one for one in read if one]


@pytest.mark.parametrize("tool", ["kind", "k3d"])
def test_it_asks_each_program_in_turn_and_names_the_nodes_of_the_cluster(tool: str, tmp_path: Path):
    asked, given = started(tmp_path, tool)
    context = f"{tool}-dra-try"
    assert [words[0] for words in asked if words[0] != "kubectl"] == [
        "docker", "docker", tool, tool, tool, "helm",
    ]  # fmt: skip
    assert all(words[1:3] == ["--context", context] for words in asked if words[0] == "kubectl")
    *_, chart_words = asked
    assert chart_words[1:3] == ["--kube-context", context]
    assert chart_words[-1] == "--wait"
    if tool == "kind":
        assert given.pop(0)["featureGates"] == {"DRAPartitionableDevices": True}
    slices = [one for one in given if one["kind"] == "ResourceSlice"]
    assert {one["spec"]["nodeName"] for one in slices} == {"worker-1", "worker-2"}
    assert {one["spec"]["pool"]["name"] for one in slices} == {"worker-1", "worker-2"}


@pytest.mark.parametrize("tool", ["kind", "k3d"])
def test_a_cluster_that_runs_is_used_again(tool: str, tmp_path: Path):
    asked, _ = started(tmp_path, tool, clusters="other dra-try")
    assert not any("create" in words for words in asked)
    assert asked[-1][0] == "helm"


def test_a_new_image_starts_new_pods_and_the_same_one_does_not(tmp_path: Path):
    images = {"first": "sha256:1", "again": "sha256:1", "changed": "sha256:2"}
    installed = {
        name: started(tmp_path / name, "kind", clusters="dra-try", built=built)[0][-1]
        for name, built in images.items()
    }
    assert installed["first"] == installed["again"] != installed["changed"]
    assert "podAnnotations.image=sha256:2" in installed["changed"]
    chart.validate({"ownDrivers": ["a"], "podAnnotations": {"image": "sha256:2"}})


@pytest.mark.parametrize(("tool", "words"), [("kind", "delete cluster --name"), ("k3d", "cluster delete")])
def test_delete_deletes_it_and_does_nothing_else(tool: str, words: str, tmp_path: Path):
    assert started(tmp_path, tool, "delete") == ([[tool, *words.split(), "dra-try"]], [])


# -- `make test-cluster` tests a cluster or fails: without a context, pytest would test the embedded server.


@pytest.mark.parametrize(
    ("named", "kubectl", "tested"),
    [
        ("", "echo current", "current"),
        ("named", "exit 1", "named"),
        ("", "echo error: current-context is not set >&2; exit 1", None),
        ("", "exit 0", None),
    ],
    ids=["current", "named", "none", "empty"],
)
def test_a_cluster_is_tested_by_its_context_or_nothing_is(
    named: str, kubectl: str, tested: str | None, tmp_path: Path
):
    """Scripts stand in for kubectl and the Python of the environment: no test starts."""
    programs, record = tmp_path / "bin", tmp_path / "record"
    programs.mkdir()
    (tmp_path / ".installed").touch()
    scripts = {"kubectl": kubectl, "python": f'echo "$DRA_RECONCILER_TEST_CONTEXT" > {record}'}
    for name, script in scripts.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    env = {"PATH": f"{programs}:/usr/bin:/bin", "DRA_RECONCILER_TEST_CONTEXT": named}
    command = ["make", "-C", str(ROOT), f"VENV={tmp_path}", "test-cluster"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is (tested is not None)
    assert (record.read_text().strip() if record.exists() else None) == tested
    assert ("name a context in DRA_RECONCILER_TEST_CONTEXT" in done.stderr) is (tested is None)
