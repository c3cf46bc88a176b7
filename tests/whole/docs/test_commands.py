"""Every command of every page and help is typed here, or is on the list of those that are not, with why."""

import io
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from click.testing import CliRunner

from reconciler.cli import COMMANDS, main
from reconciler.cli.exits import exit_codes
from reconciler.settings import Settings
from tests.tools.checkout import ROOT
from tests.tools.patience import PATIENCE
from tests.tools.processes import serving
from tests.tools.short_manifests import CLASS, gpus, together

PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "deploy" / "README.md",
        *(ROOT / "docs").glob("*.md"),
    ]
)
_TOOLS = r"(?:dra-reconciler|kubectl|make|python -m|source) [\w\[<./-]"
_BLOCK = re.compile(r"^[ ]*```(?P<kind>\w*)\n(?P<body>.*?)^[ ]*```", re.MULTILINE | re.DOTALL)
_TYPED = re.compile(rf"^\s*(?:\$ )?(?:\.venv/bin/)?(?P<text>{_TOOLS}.*)$")
_INLINE = re.compile(rf"(?<!`)`(?P<text>{_TOOLS}[^`]*)`(?!`)")
_COMMENT = re.compile(r"\s+#\s.*$")


class Command(NamedTuple):
    """What somebody may type, and where it stands."""

    text: str
    page: str

    def __str__(self) -> str:
        return f"{self.page}: {self.text}"


def commands(page: Path) -> Iterator[Command]:
    """All commands of a page, in no particular order."""
    text, name = page.read_text(), str(page.relative_to(ROOT))
    for block in _BLOCK.finditer(text):
        if block["kind"] not in ("yaml", "json"):
            yield from _typed(block["body"], name)
    rest = _BLOCK.sub("", text)
    yield from _typed("\n".join(line for line in rest.splitlines() if line.startswith("    ")), name)
    for found in _INLINE.finditer(rest):
        yield Command(" ".join(found["text"].split()), name)


def _typed(body: str, page: str) -> Iterator[Command]:
    for line in body.replace("\\\n", " ").splitlines():
        found = _TYPED.match(line)
        if found is not None:
            yield Command(_COMMENT.sub("", found["text"]).strip(), page)


def examples(name: str) -> list[Command]:
    """The examples in the help of a command."""
    command = main.get_command(click.Context(main), name)
    assert command is not None
    listed = (command.help or "").partition("Examples:\n")[2].partition("\n\n")[0]
    return list(_typed(listed, f"{name} --help"))


def everything() -> list[Command]:
    """Each command once, with the first page that has it."""
    found: dict[str, Command] = {}
    for one in (*chain.from_iterable(map(commands, PAGES)), *chain.from_iterable(map(examples, COMMANDS))):
        found.setdefault(one.text, one)
    return list(found.values())


STAND_INS: Mapping[str, str] = {
    "label=topology.kubernetes.io/zone": "label=kubernetes.io/hostname",
    "[NAMESPACE/]CLAIM": "science/torus-half",
    "NAMESPACE/CLAIM": "inference/vision",
    "FILE|DIR": "manifests",
    "--kubeconfig FILE": "--kubeconfig kubeconfig",
    "logs FILE": "logs run.log",
    "--slow 50ms": "--slow 0ms",
    "replay JOURNAL": "replay journal",
    "/var/lib/dra-reconciler/journal": "journal",
    "--pod NAMESPACE/POD": "--pod training/trainer",
    "describe pod NAME": "describe pod -n training trainer",
    "resourceclaim NAME": "resourceclaim -n inference vision",
    "pod NAME": "pod -n training trainer",
    "namespace NAME": "namespace training",
    "http://127.0.0.1:8001": "SERVER",
    "--port 8001": "--port 0",
    "node-17": "h100-0",
    "dra-reconciler COMMAND": "dra-reconciler allocate",
}
"""Text of a page -> replacement; SERVER and DECISION are known only while the test runs.

Files and folders have the names of the pages, in a folder that `workspace` fills."""

_CLUSTER = "needs a real cluster: "
NOT_RUN: Mapping[str, str] = {
    "python -m tests.tools.simulation.campaign": "plays for hours; tests/whole/simulation calls it",
    "make ": "changes this checkout; CI runs test and lint, and another test runs the demonstration",
    "source .venv/bin/activate": "changes the shell; the other commands run from that folder",
    "python -m tests.conformance": "CI runs it if the recorded answers are available",
    "python -m tests.tools.written_state": "changes this checkout; tests/whole/ha reads what it made",
    "python -m docs.": "another test compares the pictures and pages",
    "kubectl logs": _CLUSTER + "logs of pods",
    "kubectl proxy": _CLUSTER + "runs until it is stopped",
    "kubectl -n dra-reconciler port-forward": _CLUSTER + "a kubelet",
    "kubectl delete -k deploy/": "tests/whole/deploy checks these manifests",
    "kubectl label namespace NAME dra-reconciler.io/rewrite-resources=true": "changes nothing here",
    "kubectl label namespace NAME dra-reconciler.io/announce-claims": "changes nothing here",
    "kubectl krew": "needs a published release",
    "kubectl label namespace NAME dra-reconciler.io/gate-pods-": "the label is on no namespace of the tests",
    "dra-reconciler release-gates -A": "would ungate pods of other pages; another test removes gates",
    "kubectl apply -k deploy/": "tests/whole/deploy checks these manifests",
    "dra-reconciler release-gates -n training": "would ungate pods of other pages",
    "dra-reconciler completion zsh": "writes where zsh looks for it",
    "dra-reconciler dashboard": "serves until it is stopped; tests/unit/cli/test_dashboard.py runs it",
    "dra-reconciler run --leader-elect": "waits for a Lease; tests/whole/ha runs replicas",
}
"""Start of a command -> why no test runs it"""


pytestmark = pytest.mark.loopback
KUBECTL = shutil.which("kubectl") or ""
MANIFESTS = ROOT / "reconciler" / "cli" / "demo" / "manifests"
ANSWERS = {
    "allocate": {0, 1}, "capacity": {0, 1}, "defragment": {0, 1}, "doctor": {0, 1},
    "drain": {0, 1}, "explain": {0, 1}, "fit": {0, 1}, "make-room": {0, 1},
    "whatif": {0, 1},
}  # fmt: skip
"""Exit codes that are an answer, where 0 is not the only one"""
ALL = everything()
MENTION = re.compile(r"dra-reconciler [a-z]+$|make [a-z]+$")
"""A command by its name alone, in a sentence"""


def without_run(text: str) -> str | None:
    """Why a command is not typed, None if it is."""
    return next((why for start, why in NOT_RUN.items() if text.startswith(start)), None)


def typed(text: str) -> str:
    for written, meant in STAND_INS.items():
        text = text.replace(written, meant)
    return text


def kind(text: str) -> str:
    if without_run(text) is not None:
        return "not run"
    if MENTION.match(text):
        return "mention"
    if text.startswith("dra-reconciler run "):
        return "lasting"
    if text.startswith("dra-reconciler apiserver "):
        return "server"
    if text.startswith(("logs ", "replay "), len("dra-reconciler ")):
        return "of a run"
    if text.startswith("python "):
        return "of python"
    if text.startswith(("kubectl ", "source ")) or re.search(r"[|<]", text.replace("FILE|DIR", "")):
        return "shell"
    return "ours"


def those(wanted: str) -> list[Command]:
    return [one for one in ALL if kind(one.text) == wanted]


def test_there_is_something_of_each_kind_and_no_reason_is_left_over():
    assert {kind(one.text) for one in ALL} == {
        "not run", "mention", "lasting", "server", "of a run", "of python", "shell", "ours",
    }  # fmt: skip
    for start in NOT_RUN:
        assert any(one.text.startswith(start) for one in ALL), start


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_has_two_examples(name: str):
    assert len(examples(name)) >= 2


@pytest.mark.parametrize("page", sorted({one.page for one in ALL}))
def test_commands_and_flags_are_there(page: str):
    """In sentences, too; whether what follows a flag makes sense is for those that are typed."""
    called = re.compile(r"(?:^|\| )(?:kubectl dra[_-]reconciler|dra-reconciler) ([^|>]*)")
    for one in ALL:
        for found in called.finditer(typed(one.text)) if one.page == page else ():
            name, *words = shlex.split(found[1])
            assert name in COMMANDS, one
            command = main.get_command(click.Context(main), name)
            assert command is not None
            known = {opt for param in command.params for opt in param.opts} | {"--help", "-h"}
            flags = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
            assert flags <= known, one


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with everything that pages name; ~/.kube/config names a server with the demonstration."""
    here = tmp_path_factory.mktemp("typed")
    (here / "docs").symlink_to(ROOT / "docs")
    (here / "reconciler").symlink_to(ROOT / "reconciler")
    for name in ("manifests", "claims", "deploy", "examples", "old"):
        (here / name).mkdir()
    for source in MANIFESTS.iterdir():
        (here / "manifests" / source.name).write_text(source.read_text())
    (here / "claims" / "all.yaml").write_text((MANIFESTS / "20-claims.yaml").read_text())
    exclusive = (ROOT / "docs" / "examples" / "exclusive.yaml").read_text()
    (here / "slices.yaml").write_text(
        "---\n".join(part for part in exclusive.split("---\n") if "ResourceClaim" not in part)
    )
    (here / "deploy" / "class.yaml").write_text(CLASS)
    (here / "examples" / "slices.yaml").write_text(gpus("n1"))
    (here / "old" / "all.yaml").write_text(together(CLASS, gpus("n1")).replace("k8s.io/v1", "k8s.io/v1beta2"))
    devices, pods = (ROOT / "docs" / "examples" / "koordinator.yaml").read_text().rsplit("---\n", 1)
    (here / "devices.yaml").write_text(devices)
    (here / "pods.yaml").write_text(pods)
    one = (MANIFESTS / "20-claims.yaml").read_text().split("---\n")[0]
    (here / "claim.yaml").write_text(one.replace("name: mig-mix", "name: another"))
    (here / "server").mkdir()
    names = ("dra-reconciler", "training", "team-a")
    spaces = [f"{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}\n" for name in names]
    (here / "server" / "namespaces.yaml").write_text(together(*spaces))
    written = CliRunner().invoke(main, ["allocate", "-f", str(here / "manifests"), "-o", "yaml"]).stdout
    (held,) = (part for part in written.split("---\n") if "name: pair\n" in part)
    held = held.replace("name: pair\n", "name: old\n").replace("namespace: training", "namespace: team-a")
    (here / "server" / "held.yaml").write_text(held)
    options = ("--with-controllers", "-f", str(here / "manifests"), "-f", str(here / "server"))
    with serving(*options) as (_, url, _lines), pytest.MonkeyPatch.context() as patch:
        cluster = f"clusters: [{{name: c, cluster: {{server: '{url}'}}}}]\n"
        context = "contexts: [{name: c, context: {cluster: c, user: u}}]\ncurrent-context: c\n"
        users = "users: [{name: u, user: {}}]\n"
        (here / "kubeconfig").write_text(f"apiVersion: v1\nkind: Config\n{cluster}{context}{users}")
        patch.chdir(here)
        (here / ".kube").mkdir()
        shutil.copy(here / "kubeconfig", here / ".kube" / "config")
        patch.delenv("KUBECONFIG", raising=False)
        patch.setenv("HOME", str(here))
        # Shadow mode uses all of it up if it is told to end at once.
        patch.setattr(Settings, "fixed", Settings.fixed._replace(drain_seconds=1.0))
        patch.setenv("SERVER", url)
        patch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        patch.setenv("PYTHONPATH", str(ROOT))
        yield here


def reaching(text: str) -> list[str]:
    """The words of a command. The client library has read where a kubeconfig is when it was imported, so that
    a command in this process is told.
    """
    words = shlex.split(typed(text).replace("SERVER", os.environ["SERVER"]))
    elsewhere = {
        "--server",
        "--embedded",
        "--kubeconfig",
        "--help",
        *(() if "--cluster" in words else ("-f",)),
    }
    command = main.get_command(click.Context(main), words[1])
    assert command is not None
    takes = any("--kubeconfig" in param.opts for param in command.params)
    return [*words, "--kubeconfig", "kubeconfig"] if takes and not elsewhere & {*words} else words


def invoke(text: str) -> str:
    text, _, out = text.partition(" > ")
    words = reaching(text)
    result = CliRunner().invoke(main, words[1:])
    assert result.exit_code in ANSWERS.get(words[1], {0}), f"{text}: {result.exit_code}\n{result.output}"
    assert result.exit_code in exit_codes(words[1])
    assert result.exception is None or isinstance(result.exception, SystemExit), text
    if out:
        Path(out).write_text(result.stdout)
    return result.stdout


def in_a_shell(one: Command) -> None:
    script = "set -o pipefail\n" + typed(one.text).replace("SERVER", os.environ["SERVER"])
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode in (0, 1, 3), f"{one}: {done.stderr}"
    assert done.returncode == 0 or re.search(r"dra.reconciler (allocate|explain)", one.text), done.stderr
    assert "Traceback" not in done.stderr, f"{one}: {done.stderr}"


def test_on_files_and_on_a_cluster(workspace: Path):
    """In the order of the pages: some read what an earlier one has written."""
    for one in ALL:
        if kind(one.text) == "ours":
            assert invoke(one.text), one
        elif kind(one.text) == "shell" and (KUBECTL or "kubectl" not in one.text):
            in_a_shell(one)


def test_programs_of_this_repository():
    for one in those("of python"):
        module, *words = shlex.split(one.text.removeprefix("python -m "))
        result = CliRunner().invoke(import_module(f"{module}.__main__").main, words)
        assert result.exit_code == 0, result.output


@pytest.mark.skipif(not KUBECTL, reason="kubectl is not installed: commands with it were not run")
def test_kubectl_was_there():
    assert KUBECTL


class Listening(io.StringIO):
    """Where a command writes. Once it said something often enough, a real signal tells the process to end."""

    def __init__(self, words: str, times: int) -> None:
        super().__init__()
        self._words, self._times = words, times

    def write(self, text: str) -> int:
        before = self._times
        self._times -= text.count(self._words)
        if before > 0 >= self._times:
            os.kill(os.getpid(), signal.SIGTERM)
        return super().write(text)


def run_until(text: str, words: str, times: int = 1) -> str:
    """Type a command that lasts; end it when it has said so; what it said."""
    log = Listening(words, times)
    patience = threading.Timer(PATIENCE, os.kill, (os.getpid(), signal.SIGTERM))
    patience.start()
    arguments = reaching(text)[1:]
    with redirect_stderr(log), redirect_stdout(log):
        try:
            main(arguments, standalone_mode=False)
        finally:
            patience.cancel()
    return log.getvalue()


def test_what_runs_until_it_is_told_to_end(workspace: Path):
    for one in those("lasting"):
        assert '"event":"reconciling"' in run_until(one.text, '"event":"reconciling"'), one


@pytest.mark.usefixtures("workspace")
def test_a_server_serves_what_it_loads() -> None:
    for one in those("server"):
        first, *rest = run_until(one.text, "kubectl").splitlines()
        assert first.startswith("loaded: "), one
        assert any("serving on http://127.0.0.1:" in line for line in rest), one


def test_about_a_run_that_is_over(workspace: Path):
    run = "dra-reconciler run --embedded -f manifests --journal recorded"
    log = run_until(run, '"event":"claim allocated"', 8)
    (workspace / "run.log").write_text(log)
    (decision,) = re.findall(r'"claims":\["inference/vision"\].*?"decision_id":"([^"]+)"', log)[:1]
    for one in those("of a run"):
        text = typed(one.text).replace("DECISION", decision)
        assert invoke(re.sub(r"\bjournal\b", "recorded", text)), one


def outputs() -> Iterator[tuple[str, str]]:
    """Commands whose output a page shows, with each line of that."""
    for page in (ROOT / "README.md", ROOT / "docs" / "troubleshooting.md"):
        for block in re.findall(r"^```\n(\$ .*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            first, *lines = block.splitlines()
            yield from ((first.removeprefix("$ "), line) for line in lines if line != "...")


@pytest.mark.parametrize(("text", "line"), list(outputs()))
def test_what_a_page_shows_is_what_is_printed(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, text: str, line: str
):
    monkeypatch.setenv("COLUMNS", "80")  # as in a terminal of that width
    assert line in invoke(text).splitlines()
