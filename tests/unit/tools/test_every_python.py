"""The suite with every Python: which are there, with which NumPy, and what the exit code is."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.tools.checkout import ROOT

SCRIPT = "tests/tools/every_python.sh"
PROGRAMS = ("bash", "chmod", "dirname", "env", "mkdir", "printf", "sed", "seq")
PIP = """#!/usr/bin/env bash
[ "${@: -1}" = numpy==2.1.0 ]
"""
MAKE = f"""#!/usr/bin/env bash
for argument in "$@"; do case $argument in VENV=*) venv=${{argument#VENV=}};; esac; done
mkdir -p "$venv/bin"
printf '%s' '{PIP}' > "$venv/bin/pip"
chmod +x "$venv/bin/pip"
echo "suite in $venv${{PYTHONPATH:+ with ${{PYTHONPATH##*/}}}}"
[ "$venv ${{PYTHONPATH:-}}" != "$FAILS " ]
"""


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Has Python 3.12 and 3.13, and a package index in which NumPy 2.1.0 is the oldest with a build."""
    for version in ("3.12.1", "3.13.0"):
        script(tmp_path / "pyenv" / "versions" / version / "bin" / "python", "#!/usr/bin/env bash\n")
    script(tmp_path / "bin" / "make", MAKE)
    for program in PROGRAMS:
        (tmp_path / "bin" / program).symlink_to(str(shutil.which(program)))
    script(tmp_path / SCRIPT, (ROOT / SCRIPT).read_text())
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


@pytest.mark.loopback
@pytest.mark.parametrize("fails", ["", ".venv-3.12"])
def test_each_python_plays_the_suite_with_the_newest_and_the_oldest_numpy(machine: Path, fails: str):
    variables = {"PATH": str(machine / "bin"), "PYENV_ROOT": str(machine / "pyenv"), "FAILS": fails}
    done = subprocess.run([machine / SCRIPT], env=variables, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        "Python 3.11: not installed",
        "suite in .venv-3.12",
        f"Python 3.12: {'failed' if fails else 'passed'}",
        "suite in .venv-3.12 with oldest-numpy",
        "Python 3.12 with NumPy 2.1.0: passed",
        "suite in .venv-3.13",
        "Python 3.13: passed",
        "suite in .venv-3.13 with oldest-numpy",
        "Python 3.13 with NumPy 2.1.0: passed",
        "Python 3.14: not installed",
    ]
    assert done.returncode == bool(fails), done.stderr
