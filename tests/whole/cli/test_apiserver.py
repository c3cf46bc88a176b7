"""`dra-reconciler apiserver` in a separate process, over a real socket."""

import json
import signal
import socket
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from reconciler.cli import main
from tests.tools.patience import PATIENCE
from tests.tools.processes import serving
from tests.tools.short_manifests import CLASS, claim, together

pytestmark = pytest.mark.loopback


@pytest.mark.parametrize(
    ("number", "options"), [(signal.SIGINT, []), (signal.SIGTERM, ["--with-controllers"])]
)
def test_it_serves_its_input_until_it_is_stopped(tmp_path: Path, number: signal.Signals, options: list[str]):
    (tmp_path / "f.yaml").write_text(together(CLASS, claim("a")))
    with serving(*options, "-f", str(tmp_path)) as (process, url, lines):
        assert lines[0] == "loaded: 1 DeviceClass, 1 ResourceClaim"
        assert lines[-1].startswith(f"kubectl --server={url} get ")
        path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/a"
        with urllib.request.urlopen(url + path, timeout=PATIENCE) as answer:
            assert json.load(answer)["metadata"]["name"] == "a"
        process.send_signal(number)
        assert process.wait(timeout=PATIENCE) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_invalid_input_stops_it_before_it_serves(tmp_path: Path):
    (tmp_path / "f.yaml").write_text("a: b: c")
    result = CliRunner().invoke(main, ["apiserver", "--port", "0", "-f", str(tmp_path)])
    assert result.exit_code == 2
    assert "f.yaml:1:5" in result.stderr
    assert "serving" not in result.stdout


def test_an_object_that_the_server_rejects_stops_it(tmp_path: Path):
    (tmp_path / "f.yaml").write_text(claim("a").replace("count: 1", "count: -1"))
    result = CliRunner().invoke(main, ["apiserver", "--port", "0", "-f", str(tmp_path)])
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ResourceClaim a: ")


@pytest.mark.parametrize("options", [[], ["--with-controllers"]])
def test_a_used_port_is_an_error_of_one_line(options: list[str]):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = CliRunner().invoke(main, ["apiserver", "--port", str(taken.getsockname()[1]), *options])
    assert result.exit_code == 2
    assert "address already in use" in result.stderr
    assert len(result.stderr.splitlines()) == 1
