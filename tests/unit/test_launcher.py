"""Before anything is imported, packages of other distributions are named, and threads are limited."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dra_reconciler
from tests.tools.patience import PATIENCE

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
DEMO = Path(__file__).parents[2] / "reconciler" / "cli" / "demo" / "manifests"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages before all others."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def package(site: Path, name: str, text: str) -> None:
    (site / name).mkdir()
    (site / name / "__init__.py").write_text(text)


def distribution(site: Path, name: str, *packages: str) -> None:
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "top_level.txt").write_text("\n".join(packages))


def test_our_own_packages_pass():
    dra_reconciler.check()


def test_a_foreign_package_is_named_with_its_distribution_and_is_not_imported(site: Path):
    package(site, "kernels", "import huggingface_hub  # which is not installed\n")
    distribution(site, "kernels", "kernels")
    with pytest.raises(SystemExit) as ended:
        dra_reconciler.main()
    assert str(ended.value).splitlines() == [
        f"Error: {site}/kernels/__init__.py is not the package kernels of dra-reconciler, "
        "but of the distribution kernels.",
        "Install dra-reconciler into an environment of its own, for example with uv tool install and "
        "its wheel",
    ]


@pytest.mark.parametrize("run", [dra_reconciler.kubectl_plugin, dra_reconciler.kubectl_complete])
def test_the_plugin_looks_too_and_names_every_foreign_package(site: Path, run):
    for name in dra_reconciler.PACKAGES:
        package(site, name, "")
    with pytest.raises(SystemExit, match=r"(?s)kernels of.*another program.*reconciler of"):
        run()


def test_what_another_distribution_took_away_with_itself_is_missing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.path", [])
    assert "kernels of dra-reconciler is missing" in (dra_reconciler.foreign("kernels") or "")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads in /proc")
@pytest.mark.parametrize(("asked", "threads"), [({}, 1), ({"OPENBLAS_NUM_THREADS": "2"}, min(2, CORES))])
def test_numpy_starts_no_threads_unless_asked(asked: dict[str, str], threads: int):
    code = (
        "import os, sys, dra_reconciler\n"
        "sys.argv[1:] = ['top', '-f', os.devnull]\n"
        "try: dra_reconciler.main()\n"
        "except SystemExit: pass\n"
        "print('numpy' in sys.modules, len(os.listdir('/proc/self/task')))"
    )
    others = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=others | asked,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    assert done.stdout.splitlines()[-1] == f"True {threads}"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="writes to /dev/full")
@pytest.mark.parametrize("command", [["--help"], ["top", "-f", str(DEMO)]])
def test_output_that_cannot_be_written_is_no_success(command: list[str]):
    code = f"import sys, dra_reconciler; sys.argv[1:] = {command}; dra_reconciler.main()"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
    assert done.returncode
    assert "No space left" in done.stderr
