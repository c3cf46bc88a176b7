"""The plugin in sessions of its own, with a worker and without: what it notes, what fails a session."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.deployed_rights import DEPLOY
from tests.tools.examples import in_soak

CONFTEST = """
from tests.tools import deployed_rights as deployed
from tests.tools.rights_session import Rights

def pytest_configure(config):
    objects = deployed.bound("allocate")
    for role in objects:
        for rule in role.get("rules", ()):
            if rule["resources"] == [{without!r}]:
                rule["resources"] = ["secrets"]
    config.pluginmanager.register(Rights({{"allocate": deployed.Granted(objects)}}))
"""
TESTS = """
import asyncio
from reconciler.control.decisions.allocating import Allocated
from tests.tools.small_fleet import claim, device_class, devices, node
from tests.tools.running_reconciler import Cluster, reconciling

async def allocate():
    cluster = Cluster([device_class(), node("a"), devices("a", "d0"), claim("c")])
    async with reconciling(cluster) as running:
        await running.heard(Allocated)

def test_it_allocates():
    asyncio.run(allocate())

def test_nothing():
    pass
"""


def session(folder: Path, *words: str, without: str = "") -> tuple[int, str]:
    """Exit code and output of pytest on a folder with one test that allocates a claim."""
    (folder / "t").mkdir()
    (folder / "pytest.ini").write_text("[pytest]\ntestpaths = t\n")
    (folder / "t" / "conftest.py").write_text(CONFTEST.format(without=without))
    (folder / "t" / "test_one.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "xdist", *words]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        command,
        cwd=folder,
        env=kept | {"PYTHONPATH": str(DEPLOY.parent), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_right_that_is_missing_fails_the_session_and_names_the_test(tmp_path: Path):
    code, output = session(tmp_path, "-n", "1", without="resourceclaims/status")
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "2 passed" in output
    missing = "does not grant patch resourceclaims/status.resource.k8s.io"
    assert f"t/test_one.py::test_it_allocates: the role for allocate {missing}" in output
    assert "the role for allocate grants patch secrets.resource.k8s.io, which no test needs" in output


@in_soak
def test_part_of_a_suite_need_not_use_every_right(tmp_path: Path):
    code, output = session(tmp_path, "t/test_one.py")
    assert code == pytest.ExitCode.OK
    assert "requests and roles" not in output
