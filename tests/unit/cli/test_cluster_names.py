"""Commands say which cluster they read, and take the namespace of the context."""

import asyncio
import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from reconciler.cli import main
from reconciler.embedded import ApiServer, serve
from tests.tools.builders import Object, partitioned
from tests.tools.processes import served
from tests.tools.short_manifests import CLASS, claim, gpus, node, together

pytestmark = pytest.mark.loopback

CLAIM = together(CLASS, claim("c"), gpus("n1", 1), node("n1"))
COMMANDS = {
    "doctor": ["doctor", "--cluster"],
    "drain": ["drain", "n1"],
    "explain": ["explain", "c"],
    "make-room": ["make-room", "c"],
    "modes": ["modes", "--cluster"],
    "top": ["top"],
    "top of machines": ["top", "--koordinator"],
    "whatif": ["whatif", "--cluster", "--drain", "n1"],
}


def kubeconfig(path: Path, server: str, **context: str) -> str:
    contexts = [{"name": "prod", "context": {"cluster": "c", **context}}]
    clusters = [{"name": "c", "cluster": {"server": server}}]
    found = {"current-context": "prod", "clusters": clusters, "contexts": contexts}
    path.write_text(yaml.safe_dump(found))
    return str(path)


async def run(api: ApiServer, config: Path, *arguments: str, **context: str) -> tuple[str, Result]:
    async with serve(api) as url:
        path = kubeconfig(config, url, **context)
        command = [*arguments, "--kubeconfig", path]
        return url, await asyncio.to_thread(CliRunner().invoke, main, command)


@pytest.mark.parametrize("command", COMMANDS)
async def test_server_and_context_are_named_on_standard_error(tmp_path, command):
    url, result = await run(served(CLAIM), tmp_path / "config", *COMMANDS[command])
    assert result.stderr.splitlines()[0] == f"cluster: {url} (context prod)"
    assert result.stderr.count("cluster: ") == 1
    assert url not in result.stdout


@pytest.mark.parametrize("command", COMMANDS)
async def test_programs_get_nothing_but_the_answer(tmp_path, command):
    _, result = await run(served(CLAIM), tmp_path / "config", *COMMANDS[command], "-o", "json")
    assert json.loads(result.stdout)
    assert "cluster:" not in result.stderr


@pytest.mark.parametrize(
    ("options", "found"), [([], "team/c"), (["-n", "default"], "default/c"), (["--pod"], "team/c")]
)
async def test_names_without_a_namespace_are_in_that_of_the_context(tmp_path, options, found):
    """As in kubectl; also as its plugin."""
    mine = claim("c").replace("name: c", "name: c, namespace: team")
    text = together(CLASS, claim("c"), mine, gpus("n1", 1), node("n1"))
    _, result = await run(served(text), tmp_path / "config", "explain", "c", *options, namespace="team")
    assert found in result.stdout + result.stderr


async def test_a_claim_to_free_is_in_the_namespace_of_the_context(tmp_path):
    objects: list[Object] = list(partitioned("n1"))
    api = ApiServer()
    api.load(objects)
    asked = ["whatif", "--cluster", "--drain", "n1", "--without", "c"]
    _, result = await run(api, tmp_path / "config", *asked, namespace="team")
    assert "team/c" in result.output


def test_manifests_have_the_namespace_default(tmp_path, monkeypatch):
    """A kubeconfig says nothing about files."""
    path = kubeconfig(tmp_path / "config", "http://127.0.0.1:1", namespace="team")
    monkeypatch.setenv("KUBECONFIG", path)
    (tmp_path / "all.yaml").write_text(CLAIM)
    result = CliRunner().invoke(main, ["explain", "c", "-f", str(tmp_path / "all.yaml")])
    assert (result.exit_code, result.stderr) == (0, "")
    assert "default/c" in result.stdout
