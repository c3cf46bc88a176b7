"""Every exit code in the table occurs."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from click.testing import CliRunner

from reconciler.cli import COMMANDS, main
from reconciler.cli.exits import ANSWERS, exit_codes
from tests.tools.patience import PATIENCE
from tests.tools.short_manifests import CLASS, claim, gpus, together

pytestmark = pytest.mark.loopback
NO_SERVER = ("--server", "http://127.0.0.1:1")
GOOD = together(CLASS, gpus("n1", 1), claim("a"))
SHORT = together(GOOD, claim("b"))
DRAWS = gpus("n1", 1).replace(
    "{name: gpu-0}", "{name: gpu-0, consumesCounters: [{counterSet: x, counters: {m: {value: 1}}}]}"
)
HELD = claim("held") + (
    "status: {allocation: {devices: {results: [{request: gpu, driver: gpu.example.com, pool: n1, "
    "device: gpu-0}]}, nodeSelector: {nodeSelectorTerms: [{matchFields: "
    "[{key: metadata.name, operator: In, values: [n1]}]}]}}}\n"
)
ELSEWHERE = CLASS.replace("device.driver ==", "device.driver !=")
LINE = (
    '{"timestamp": "2026-01-01T00:00:00Z", "level": "info", '
    '"logger": "reconciler.operations.telemetry", "event": "pod ungated", '
    '"pod": "default/p", "decision_id": "x"}\n'
)
REQUESTS = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: a, image: i, resources: {limits: {example.com/unknown: 1}}}]}
"""
PODS = """
apiVersion: dra-reconciler.io/v1alpha1
kind: FitRequest
podSets:
- name: one
  template:
    spec: {containers: [{name: a, image: i}], resourceClaims: [{name: c, resourceClaimTemplateName: t}]}
"""
TEMPLATE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: t}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu, count: 1}}]}}}
"""
FILES = {
    "asked.yaml": together(PODS, TEMPLATE),
    "good.yaml": GOOD,
    "short.yaml": SHORT,
    "bad.yaml": "- 1\n",
    "wrong.yaml": claim("x").replace("count: 1", "count: -1"),
    "warned.yaml": together(ELSEWHERE, gpus("n1", 1)),
    "broken.yaml": DRAWS,
    "more.yaml": gpus("n2", 1),
    "held.yaml": together(SHORT, HELD),
    "huge.yaml": claim("h", 9),
    "requests.yaml": REQUESTS,
    "run.log": LINE,
    "empty.log": "nothing\n",
    "empty.yaml": "",
    "unknown.yaml": claim("x").replace("ResourceClaim", "ResourceCliam"),
    "others.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n",
}

CASES: dict[tuple[str, int], tuple[str, ...]] = {
    ("allocate", 0): ("-f", "good.yaml"),
    ("allocate", 1): ("-f", "short.yaml"),
    ("capacity", 0): ("-f", "good.yaml", "--demand", "short.yaml"),
    ("capacity", 1): ("-f", "good.yaml", "--demand", "huge.yaml"),
    ("completion", 0): ("zsh",),
    ("convert", 0): ("-f", "good.yaml"),
    ("convert", 1): ("-f", "good.yaml", "-f", "bad.yaml"),
    ("defragment", 0): ("-f", "good.yaml", "--target", "node=90%"),
    ("defragment", 1): ("-f", "good.yaml", "--gain", "node=1"),
    ("demo", 0): (),
    ("demo", 1): (),
    ("doctor", 0): ("-f", "good.yaml"),
    ("doctor", 1): ("-f", "broken.yaml"),
    ("drain", 0): ("n1", "-f", "good.yaml"),
    ("drain", 1): ("n1", "-f", "held.yaml"),
    ("explain", 0): ("a", "-f", "good.yaml"),
    ("explain", 1): ("b", "-f", "short.yaml"),
    ("fit", 0): ("-f", "asked.yaml", "-f", "good.yaml"),
    ("fit", 1): ("-f", "asked.yaml", "-f", "held.yaml"),
    ("logs", 0): ("run.log",),
    ("logs", 1): ("run.log", "--claim", "no-such"),
    ("make-room", 0): ("a", "-f", "good.yaml"),
    ("make-room", 1): ("b", "-f", "held.yaml"),
    ("migrate", 0): ("-f", "good.yaml"),
    ("migrate", 1): ("-f", "requests.yaml"),
    ("modes", 0): ("-f", "good.yaml"),
    ("modes", 1): ("-f", "good.yaml", "-f", "bad.yaml"),
    ("top", 0): ("-f", "good.yaml"),
    ("top", 1): ("-f", "good.yaml", "-f", "bad.yaml"),
    ("whatif", 0): ("-f", "short.yaml", "--count", "1", "--add", "more.yaml"),
    ("whatif", 1): ("-f", "short.yaml", "--count", "1"),
}
"""Yes and no; `demo` gets a short limit for its 1"""
UNREADABLE: dict[str, tuple[str, ...]] = {
    "allocate": ("-f", "empty.yaml"),
    "apiserver": ("--port", "0", "-f", "wrong.yaml"),
    "capacity": ("--pending", "-f", "empty.yaml"),
    "completion": ("no-such-shell",),
    "convert": ("-f", "bad.yaml"),
    "dashboard": ("-f", "empty.yaml"),
    "defragment": ("-f", "others.yaml"),
    "demo": ("--no-such",),
    "doctor": ("-f", "empty.yaml"),
    "drain": ("n9", "-f", "good.yaml"),
    "explain": ("a", "-f", "others.yaml"),
    "fit": ("-f", "empty.yaml"),
    "logs": ("empty.log",),
    "make-room": ("z", "-f", "good.yaml"),
    "migrate": ("-f", "empty.yaml"),
    "modes": ("-f", "others.yaml"),
    "release-gates": ("-n", "a", "-A"),
    "replay": ("empty.log",),
    "run": ("--embedded", "-f", "wrong.yaml"),
    "top": ("-f", "bad.yaml"),
    "whatif": ("-f", "empty.yaml"),
}
"""Nothing that is named can be read"""
REACHING: dict[str, tuple[str, ...]] = {
    "capacity": ("--pending", *NO_SERVER),
    "dashboard": NO_SERVER,
    "defragment": NO_SERVER,
    "doctor": NO_SERVER,
    "drain": ("n1", *NO_SERVER),
    "explain": ("a", *NO_SERVER),
    "fit": ("-f", "asked.yaml", *NO_SERVER),
    "make-room": ("a", *NO_SERVER),
    "modes": NO_SERVER,
    "release-gates": NO_SERVER,
    "run": ("--own-driver", "gpu.example.com", *NO_SERVER),
    "top": ("--once", *NO_SERVER),
    "whatif": ("-f", "short.yaml", *NO_SERVER),
}
"""The cluster cannot be reached"""
SIGNALLED = ("apiserver", "dashboard", "run")
"""Processes: test_apiserver.py and test_run_terminal.py end the first and the last"""
OF_JOURNALS = ("replay",)
"""Needs a recorded journal: tests/unit/operations/journal has its 0 and 1"""
OF_SERVERS = ("release-gates",)
"""Needs a server: tests/unit/cli/test_release_gates.py has its 0"""
OF_UNITS = (("release-gates", 1), ("run", 1))
"""Need a server that refuses a write, and a defect of ours"""


def test_every_command_has_exit_codes_and_every_code_a_case():
    assert ANSWERS.keys() == COMMANDS.keys()
    tried = {*CASES, *((name, 0) for name in SIGNALLED), *((name, 2) for name in UNREADABLE)}
    tried |= {(name, 3) for name in REACHING} | {(name, 0) for name in OF_SERVERS}
    tried |= {(name, code) for name in OF_JOURNALS for code in (0, 1)} | set(OF_UNITS)
    assert tried == {(name, code) for name in ANSWERS for code in exit_codes(name)}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("DRA_RECONCILER_")]:
        monkeypatch.delenv(name)
    return tmp_path


@pytest.mark.parametrize(("command", "code"), CASES, ids=str)
def test_a_command_exits_with(here: Path, monkeypatch: pytest.MonkeyPatch, command: str, code: int):
    if (command, code) == ("demo", 1):
        monkeypatch.setattr("reconciler.cli.demo.MAX_SECONDS", 0.0)
    result = CliRunner().invoke(main, [command, *CASES[command, code]])
    assert result.exit_code == code, result.output


@pytest.mark.parametrize("command", UNREADABLE)
def test_nothing_readable_is_no_answer(here: Path, command: str):
    result = CliRunner().invoke(main, [command, *UNREADABLE[command]])
    assert result.exit_code == 2, result.output
    assert "Error: " in result.stderr


@pytest.mark.parametrize("command", [name for name, asked in UNREADABLE.items() if "-f" in asked])
def test_input_without_an_object_that_is_read_is_no_answer(here: Path, command: str):
    more = {"capacity": ["--pending"], "drain": ["n1"], "explain": ["-A"], "make-room": ["a"]}
    asked = {**more, "whatif": ["--drain", "n1"], "run": ["--embedded"]}.get(command, [])
    said = {
        "empty.yaml": "empty.yaml is empty",
        "bad.yaml": "is a list, not an object",
        "unknown.yaml": "did you mean",
    }
    if command not in SIGNALLED:  # a server serves all kinds
        said["others.yaml"] = "only 1 ConfigMap"
    for file, text in said.items():
        result = CliRunner().invoke(main, [command, *asked, "-f", file])
        assert (result.exit_code, text in " ".join(result.output.split())) == (2, True), result.output


@pytest.mark.parametrize("command", REACHING)
def test_a_cluster_that_cannot_be_reached(here: Path, command: str):
    result = CliRunner().invoke(main, [command, *REACHING[command]])
    assert result.exit_code == 3, result.output
    assert "127.0.0.1:1" in result.stderr


class Forbidding(BaseHTTPRequestHandler):
    """An API server that allows nothing."""

    def do_GET(self) -> None:
        body = b'{"kind": "Status", "status": "Failure", "message": "nothing is allowed", "code": 403}'
        self.send_response(403)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing on standard error."""


@pytest.fixture(scope="module")
def forbidding() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Forbidding) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("command", REACHING)
def test_a_cluster_that_does_not_allow_it(here: Path, forbidding: str, command: str):
    asked = [forbidding if word == NO_SERVER[1] else word for word in REACHING[command]]
    result = CliRunner().invoke(main, [command, *asked])
    assert (result.exit_code, "nothing is allowed" in result.stderr) == (3, True), result.output


@pytest.mark.parametrize("command", ["allocate", "capacity", "explain", "modes", "top"])
def test_an_answer_of_which_part_was_refused_is_not_yes(here: Path, command: str):
    name = {"explain": ["a"], "capacity": ["--pending"]}.get(command, [])
    result = CliRunner().invoke(main, [command, *name, "-f", "good.yaml", "-f", "bad.yaml"])
    assert result.exit_code == 1, result.output
    assert result.stderr.startswith("refused: bad.yaml")


def test_input_without_a_usable_object_says_what_was_found(here: Path):
    result = CliRunner().invoke(main, ["allocate", "-f", "others.yaml", "-f", "bad.yaml"])
    assert result.exit_code == 2
    assert "no object that is used here was read, only 1 invalid object, 1 ConfigMap" in result.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_flag_is_wrong_usage(command: str):
    result = CliRunner().invoke(main, [command, "--no-such-flag"])
    assert result.exit_code == 2
    assert "No such option" in result.stderr


@pytest.mark.parametrize("command", ANSWERS)
def test_help_ends_with_the_exit_codes(command: str):
    said = CliRunner().invoke(main, [command, "--help"], terminal_width=200).stdout
    table = " ".join(said.partition("Exit codes:\n")[2].split())  # long meanings are wrapped
    assert table == " ".join(f"{code} {meaning}" for code, meaning in exit_codes(command).items())
    assert "Exit codes:" not in said.partition("Exit codes:")[2], "the docstring has them, too"


@contextmanager
def process(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-u", "-m", "reconciler", *arguments]
    found = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield found
    finally:
        found.kill()
        found.communicate()


def test_a_stopped_dashboard_exits_with_0(here: Path):
    with process("dashboard", "--no-open", "-f", "good.yaml") as running:
        assert running.stdout is not None
        assert any(line.startswith("kubectl ") for line in running.stdout)
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=PATIENCE) == 0


def test_an_address_that_is_in_use(here: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = CliRunner().invoke(main, ["apiserver", "--port", str(taken.getsockname()[1])])
    assert result.exit_code == 2
