"""`make cluster` says what it lacks, and names files and values that exist. Clusters are not started here."""

import re
import shlex
import subprocess
from pathlib import Path

from tests.tools import chart
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
    values = {"ownDrivers": owned, "admission": {"confine": given.pop("admission.confine") == "true"}}
    values["image"] = {key.removeprefix("image."): value for key, value in given.items()}
    chart.validate(values)
    slices = "".join((ROOT / "reconciler" / "cli" / "demo" / "manifests" / name).read_text() for name in demo)
    assert {*owned} == {*re.findall(r"^  driver: (\S+)$", slices, re.MULTILINE)}
    assert shlex.split(TEXT.splitlines()[0].removeprefix("#!")) == ["/bin/sh"]
