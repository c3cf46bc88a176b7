"""Before anything is imported, packages of other distributions are named, and threads are limited."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dra_reconciler
from tests.tools.patience import PATIENCE

CORES = os.cpu_count() or 1


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


AT_ITS_END = """
import atexit, sys, threading, time, dra_reconciler
class Kept:
    def __del__(self): print("taken apart")
kept = Kept()
{before}
with dra_reconciler.quick_end():
    atexit.register(print, "handled")
    print("done")
    {end}
"""


@pytest.mark.parametrize(
    ("before", "end", "said", "code"),
    [
        ("", "sys.exit(3)", "done handled", 3),
        ("", "sys.exit()", "done handled", 0),
        ("", "sys.exit(256)", "done handled", 0),
        (
            "",
            "threading.Timer(0.01, print, ['waited for']).start(); sys.exit(2)",
            "done waited-for handled",
            2,
        ),
        ("", "sys.exit('a message')", "done handled taken-apart", 1),
        ("", "raise ValueError", "done handled taken-apart", 1),
        ("", "pass", "done handled taken-apart", 0),
        ("import asyncio", "sys.exit(3)", "done handled taken-apart", 3),
        ("atexit.register(print, 'of others')", "sys.exit(3)", "done handled of-others taken-apart", 3),
    ],
)
def test_a_process_that_read_files_ends_without_being_taken_apart(
    before: str, end: str, said: str, code: int
):
    done = subprocess.run(
        [sys.executable, "-c", AT_ITS_END.format(before=before, end=end)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.stdout.splitlines() == [word.replace("-", " ") for word in said.split()]
    assert done.returncode == code
    assert ("a message" in done.stderr) is ("message" in end)


@pytest.mark.parametrize("length", [10, 6_000])  # less and more than Python keeps back at once
@pytest.mark.parametrize("into", ["a pipe", "/dev/full"])
def test_output_that_cannot_be_written_is_told_and_is_no_success(into: str, length: int):
    if into == "a pipe":
        reader, writer = os.pipe()
        os.close(reader)
    elif Path(into).exists():
        writer = os.open(into, os.O_WRONLY)
    else:
        pytest.skip(f"this system has no {into}")
    done = subprocess.run(
        [sys.executable, "-c", AT_ITS_END.format(before="", end=f"print('x' * {length}); sys.exit(3)")],
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    os.close(writer)
    assert done.returncode == dra_reconciler.OUTPUT_LOST
    assert ("BrokenPipeError" if into == "a pipe" else "No space left") in done.stderr


def test_an_exit_that_was_caught_hides_no_later_failure():
    code = AT_ITS_END.format(before="", end="sys.exit(0)").replace("with dra", "try:\n  with dra")
    code = code.replace("\n    ", "\n      ") + "\nexcept SystemExit: raise ValueError"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=PATIENCE)
    assert done.returncode == 1
