"""Completion in real shells and by the real kubectl, if they are installed, and the plugin."""

import os
import pty
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from reconciler.cli import main
from tests.tools.patience import PATIENCE
from tests.tools.short_manifests import CLASS

BIN = Path(sys.executable).parent
BASH, KUBECTL = shutil.which("bash") or "", shutil.which("kubectl") or ""
ZSH, FISH = shutil.which("zsh") or "", shutil.which("fish") or ""
ASKED = {
    "bash": (
        [BASH, "--norc", "--noprofile", "-i"],
        "bind 'set enable-bracketed-paste off'; source <(dra-reconciler completion bash)",
    ),
    "zsh": (
        [ZSH, "-f", "-i"],
        "unset zle_bracketed_paste; mkdir -p of; dra-reconciler completion zsh > of/_dra-reconciler; "
        "fpath=($PWD/of $fpath); autoload -Uz compinit; compinit -u -D",
    ),
}
"""Shell -> command to start it, and command to load the completion as in the help"""
TYPED = [
    ("dra-reconciler expl", "explain"),
    ("dra-reconciler top --sort allo", "allocatable"),
    ("dra-reconciler allocate -f slic", "slices.yaml"),
]
"""Keys, and the word that Tab makes of the last one: a command, a value, a file"""
installed = pytest.mark.skipif(
    not (BIN / "kubectl-dra_reconciler").exists(), reason="the console scripts are not installed; run make"
)
needs_kubectl = pytest.mark.skipif(not KUBECTL, reason="kubectl is not installed")
ENVIRONMENT = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "TERM": "dumb", "KUBECONFIG": "/dev/null"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_names_the_program_under_any_name(shell: str):
    result = CliRunner().invoke(main, ["completion", shell], prog_name="kubectl dra-reconciler")
    assert result.exit_code == 0
    assert "_DRA_RECONCILER_COMPLETE=" in result.stdout
    assert "kubectl" not in result.stdout


def heard(terminal: int, before: bytes) -> bytes:
    assert select.select([terminal], [], [], PATIENCE)[0], f"no more output after {before!r}"
    return os.read(terminal, 4096)


def complete_in(of: str, folder: Path) -> None:
    """Type the keys of each row into one interactive shell, and read until it shows the rest of the word."""
    ours, theirs = pty.openpty()
    start, prepare = ASKED[of]
    shell = subprocess.Popen(
        start,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**ENVIRONMENT, "PS1": "", "COLUMNS": "200"},
        cwd=folder,
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    try:
        os.write(ours, f"{prepare}; echo rea'dy'\n".encode())
        while b"ready\r\n" not in shown:
            shown += heard(ours, shown)
        for keys, word in TYPED:
            shown, rest = b"", word.removeprefix(keys.rpartition(" ")[2])
            os.write(ours, f"{keys}\t".encode())
            while f"{rest} ".encode() not in shown:
                shown += heard(ours, shown)
            os.write(ours, b"\x15")  # Ctrl-U: drops the line
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)


@installed
@pytest.mark.parametrize(
    "shell",
    [
        pytest.param("bash", marks=pytest.mark.skipif(not BASH, reason="bash is not installed")),
        pytest.param("zsh", marks=pytest.mark.skipif(not ZSH, reason="zsh is not installed")),
    ],
)
def test_a_real_shell_completes(tmp_path: Path, shell: str):
    (tmp_path / "slices.yaml").touch()
    complete_in(shell, tmp_path)


@installed
@pytest.mark.parametrize(("keys", "word"), TYPED)
@pytest.mark.skipif(not FISH, reason="fish is not installed")
def test_a_real_fish_completes(tmp_path: Path, keys: str, word: str):
    (tmp_path / "slices.yaml").touch()
    asked = f"dra-reconciler completion fish | source; complete -C '{keys}'"
    found = subprocess.run(
        [FISH, "--no-config", "-c", asked],
        env={**ENVIRONMENT, "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    assert word in [line.partition("\t")[0] for line in found.stdout.splitlines()]


def kubectl(*arguments: str) -> str:
    done = subprocess.run(
        [KUBECTL, *arguments], env=ENVIRONMENT, capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    return done.stdout


@installed
@needs_kubectl
def test_kubectl_runs_the_plugin_and_help_has_its_name(tmp_path: Path):
    said = kubectl("dra-reconciler", "explain", "--help")
    assert said.startswith("Usage: kubectl dra-reconciler explain [OPTIONS]")
    (tmp_path / "class.yaml").write_text(CLASS)
    assert "0 claims allocated" in kubectl("dra_reconciler", "allocate", "-f", str(tmp_path))


@installed
@needs_kubectl
def test_kubectl_completes_commands_and_the_shell_completes_files():
    offered = kubectl("__complete", "dra-reconciler", "ex").splitlines()
    assert [line.partition("\t")[0] for line in offered] == ["explain", ":4"]
    assert kubectl("__complete", "dra-reconciler", "allocate", "-f", "").splitlines() == [":0"]


def test_completing_a_name_imports_no_command():
    code = (
        "import sys; sys.argv[1:] = ['']; from reconciler.cli import kubectl_complete; kubectl_complete()\n"
        "print('|'.join(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert "explain\t" in done.stdout
    assert not set(done.stderr.strip().split("|")) & {"kubernetes_asyncio", "aiohttp", "numpy", "pydantic"}
