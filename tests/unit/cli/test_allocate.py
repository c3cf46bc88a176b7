"""`dra-reconciler allocate`: output and exit codes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from reconciler.cli import main
from tests.tools.allocate_command import ALL, NO, USAGE, allocate
from tests.tools.patience import PATIENCE
from tests.tools.short_manifests import CLASS, claim, gpus, pod, template, together


def test_the_table_names_claim_request_devices_and_node(tmp_path: Path):
    result = allocate(tmp_path, f=together(CLASS, gpus("n1"), claim("a", 2)))
    assert result.exit_code == ALL
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["CLAIM", "REQUEST", "DEVICE", "NODE"],
        ["default/a", "gpu", "gpu.example.com/n1/gpu-0", "n1"],
        ["default/a", "gpu", "gpu.example.com/n1/gpu-1", "n1"],
        ["nodes", "without", "a", "Node", "object:", "n1"],
        ["1", "claim", "allocated"],
    ]
    assert result.stderr == ""


def test_wide_has_the_pod_and_name_the_claims_as_kubectl_names_them(tmp_path: Path):
    text = together(CLASS, gpus("n1", 2), template("t"), pod("p", "x:t"), claim("a"))
    wide = [line.split() for line in allocate(tmp_path, "-o", "wide", f=text).stdout.splitlines()]
    assert wide[0] == ["CLAIM", "REQUEST", "DEVICE", "NODE", "POD"]
    assert {line[0]: line[4] for line in wide[1:3]} == {"default/p-x": "default/p", "default/a": "-"}
    names = allocate(tmp_path, "-o", "name", f=text).stdout.splitlines()
    assert sorted(names) == ["resourceclaim.resource.k8s.io/a", "resourceclaim.resource.k8s.io/p-x"]


def test_a_claim_that_is_not_allocated_has_a_line_with_counts(tmp_path: Path):
    result = allocate(tmp_path, f=together(CLASS, gpus("n1", 2), claim("a"), claim("b", 2)))
    assert result.exit_code == NO
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("not allocated"))
    assert line.startswith(
        "not allocated: claim default/b: request gpu: 2 of 2 devices match class and selectors; 1 is free; "
    )
    assert "the request needs 2 devices" in line
    assert result.stdout.splitlines()[-1] == "1 claim allocated, 1 pending"


def test_the_claims_of_a_pod_are_named_with_it(tmp_path: Path):
    result = allocate(tmp_path, f=together(CLASS, template("t"), pod("p", "x:t", "y:t"), pod("q", "z=gone")))
    assert "not allocated: claims default/p-x, default/p-y of pod default/p: " in result.stdout
    assert "not allocated: pod default/q: claim default/gone is not among the objects read" in result.stdout
    assert result.exit_code == NO


def test_names_are_never_cut_without_a_terminal(tmp_path: Path):
    name = "n" * 200
    result = allocate(tmp_path, f=together(CLASS, gpus("n1"), claim(name)))
    assert name in result.stdout


def test_text_from_manifests_is_not_markup(tmp_path: Path):
    result = allocate(tmp_path, f=together(CLASS, gpus("n1"), claim("'[red]a[/red] :smile:'")))
    assert "default/[red]a[/red] :smile:" in result.stdout


@pytest.mark.parametrize("output", ["table", "yaml", "json"])
def test_control_characters_in_manifests_are_escaped(tmp_path: Path, output: str):
    names = ('"a\\e[31mb"', '"c\\rd"', '"e\\x9bf"')
    documents = (claim(name, metadata="labels: {}") for name in names)
    broken = '{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "\\ud800"}}'
    result = allocate(tmp_path, "-o", output, f=together(CLASS, gpus("n1"), *documents), g=broken)
    assert "ResourceClaim default/\\ud800: metadata.name: must be valid UTF-8 text" in result.stderr
    for text in (result.stdout, result.stderr):
        assert not set(text) & {"\x1b", "\r", "\x9b", "\ud800"}


def test_the_yaml_contains_only_the_claims(tmp_path: Path):
    result = allocate(
        tmp_path, "-o", "yaml", f=together(CLASS, gpus("n1"), claim("a"), claim("b", 2), claim("c"))
    )
    assert result.exit_code == NO
    written = list(yaml.safe_load_all(result.stdout))
    assert [one["metadata"]["name"] for one in written] == ["a", "c"]
    assert written[0]["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert written[0]["status"]["allocation"]["allocationTimestamp"].endswith("Z")
    assert "&id" not in result.stdout
    assert "not allocated: claim default/b" in result.stderr
    assert "nodes without a Node object" in result.stderr


def test_the_json_is_one_list(tmp_path: Path):
    result = allocate(tmp_path, "-o", "json", f=together(CLASS, gpus("n1"), claim("a")))
    written = json.loads(result.stdout)
    assert (written["apiVersion"], written["kind"]) == ("v1", "List")
    assert [one["metadata"]["name"] for one in written["items"]] == ["a"]


@pytest.mark.parametrize(
    ("output", "stdout"), [("yaml", ""), ("json", '{"apiVersion":"v1","kind":"List","items":[]}')]
)
def test_output_without_allocations_is_well_formed(tmp_path: Path, output: str, stdout: str):
    result = allocate(tmp_path, "-o", output, f=CLASS)
    assert "".join(result.stdout.split()) == stdout
    assert result.exit_code == ALL


def test_its_own_output_can_be_read_from_standard_input(tmp_path: Path):
    first = allocate(tmp_path, "-o", "yaml", f=together(CLASS, gpus("n1", 1), claim("a")))
    (tmp_path / "f.yaml").unlink()
    again = allocate(tmp_path, "-f", "-", stdin=first.stdout, g=together(CLASS, gpus("n1", 1), claim("b")))
    assert again.stdout.splitlines()[-1] == "0 claims allocated, 1 pending, 1 already allocated"


def test_files_can_be_arguments_without_a_flag(tmp_path: Path):
    """So that a shell pattern works."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.yaml").write_text(together(CLASS, gpus("n1")))
    (tmp_path / "b.yaml").write_text(claim("a"))
    result = allocate(tmp_path, str(tmp_path / "b.yaml"), str(tmp_path / "sub"))
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (ALL, "1 claim allocated")


BAD = {
    "malformed YAML": ("a: b: c", "bad.yaml:1:5: mapping values are not allowed"),
    "a quantity that is none": (
        gpus("n9").replace("{name: gpu-0}", "{name: gpu-0, capacity: {memory: {value: 10Gib}}}"),
        "ResourceSlice n9-gpus: spec.devices[0].capacity.memory.value: '10Gib' is not a quantity",
    ),
    "an object twice": (claim("a"), "bad.yaml:1: ResourceClaim default/a: metadata.name: is also in "),
    "an unknown version": (
        claim("x").replace("/v1", "/v1alpha2"),
        "bad.yaml:1: ResourceClaim default/x: apiVersion: resource.k8s.io/v1alpha2 is not supported",
    ),
    "a document that is no object": ("- 1", "bad.yaml:1: document: is a list, not an object"),
    "a document without a kind": ("a: 1", "bad.yaml:1: document: kind: is missing"),
    "a key twice": ("kind: A\nkind: B", "bad.yaml:2:1: the key 'kind' occurs twice in one mapping"),
    "a claim whose spec is a list": (
        "{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: x}, spec: []}",
        "ResourceClaim default/x: spec: must be an object",
    ),
}


@pytest.mark.parametrize(("text", "line"), BAD.values(), ids=BAD.keys())
@pytest.mark.parametrize("output", ["table", "yaml"])
def test_only_invalid_input_is_refused(tmp_path: Path, text: str, line: str, output: str):
    result = allocate(tmp_path, "-o", output, good=together(CLASS, gpus("n1"), claim("a")), bad=text)
    assert result.exit_code == NO
    (refusal,) = (one for one in result.stderr.splitlines() if one.startswith("refused: "))
    assert line in refusal
    assert "gpu-0" in result.stdout


def test_the_exit_code_of_invalid_input_wins_over_pending_claims(tmp_path: Path):
    assert allocate(tmp_path, f=together(claim("a"), "- 1\n")).exit_code == NO


def test_a_missing_class_is_named(tmp_path: Path):
    result = allocate(tmp_path, f=together(gpus("n1"), claim("a", device_class="nope")))
    assert result.exit_code == NO
    assert "not allocated: claim default/a: request gpu: there is no DeviceClass nope" in result.stdout


def test_a_pool_that_is_incomplete_in_its_newest_generation_is_reported(tmp_path: Path):
    slices = gpus("n1", generation=1, slices=2, name="one"), gpus("n1", generation=2, slices=2, name="two")
    result = allocate(tmp_path, f=together(CLASS, *slices, claim("a")))
    assert result.exit_code == NO
    assert (
        "pool gpu.example.com/n1 cannot be used: 1 of 2 slices of generation 2 are published" in result.stdout
    )


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-f", "does/not/exist.yaml"],
        ["-o", "xml", "-f", "-"],
        ["--semantics", "1.35", "-f", "-"],
        ["--feature-gates", "Nope=true", "-f", "-"],
        ["--steps", "0", "-f", "-"],
        ["--nope"],
    ],
    ids=" ".join,
)
def test_wrong_usage_has_another_exit_code_than_invalid_input(arguments: list[str]):
    result = CliRunner().invoke(main, ["allocate", *arguments], input="")
    assert result.exit_code == USAGE
    assert "Error: " in result.stderr


def test_gates_and_releases_reach_the_decision(tmp_path: Path):
    tainted = gpus("n1", 1).replace("{name: gpu-0}", "{name: gpu-0, taints: [{key: k, effect: NoSchedule}]}")
    text = together(CLASS, tainted, claim("a"))
    assert allocate(tmp_path, f=text).exit_code == NO
    assert allocate(tmp_path, "--feature-gates", "DRADeviceTaints=false", f=text).exit_code == ALL
    counters = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: elsewhere}
spec:
  driver: other.example.com
  nodeName: n2
  pool: {name: n2, generation: 1, resourceSliceCount: 2}
  sharedCounters: [{name: c, counters: {m: {value: 1}}}]
"""
    every = claim("a").replace("count: 1", "allocationMode: All")
    spread = together(CLASS, gpus("n1"), counters, every)
    assert allocate(tmp_path, "--semantics", "1.37", f=spread).exit_code == ALL
    assert allocate(tmp_path, "--semantics", "1.36", f=spread).exit_code == NO  # POOL-7


def test_steps_bound_the_search(tmp_path: Path):
    result = allocate(tmp_path, "--steps", "1", f=together(CLASS, gpus("n1", 4), claim("a", 3)))
    assert result.exit_code == NO


def run(*arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "reconciler", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE, **options)


def test_the_program_runs_as_a_process(tmp_path: Path):
    (tmp_path / "f.yaml").write_text(together(CLASS, gpus("n1"), claim("a")))
    done = run("allocate", "-f", str(tmp_path))
    assert (done.returncode, done.stderr) == (ALL, "")
    assert "default/a" in done.stdout


def test_a_closed_pipe_prints_no_error(tmp_path: Path):
    (tmp_path / "f.yaml").write_text(
        together(CLASS, gpus("n1", 1), *(claim(f"claim-{n}") for n in range(2000)))
    )
    command = f"{sys.executable} -m reconciler allocate -f {tmp_path} | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.stderr == ""
    assert done.stdout.startswith("CLAIM")
