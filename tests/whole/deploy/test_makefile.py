"""`make test-cluster` tests a cluster or fails: without a context, pytest would test the embedded server."""

import subprocess
from pathlib import Path

import pytest

from tests.tools.checkout import ROOT


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
