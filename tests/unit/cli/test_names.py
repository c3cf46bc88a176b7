"""Completion of names from a cluster: kept for a while, and silent whatever goes wrong."""

import asyncio
import json
import os
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from reconciler.cli import main
from reconciler.embedded import serve
from tests.tools.processes import Overheard
from tests.tools.small_fleet import claim, node, pod

pytestmark = pytest.mark.loopback


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "dra-reconciler"


async def completed(*words: str) -> list[str]:
    """What a shell offers for the last word."""
    complete = ShellComplete(main, {}, "dra-reconciler", "_X")
    found = await asyncio.to_thread(complete.get_completions, list(words[:-1]), words[-1])
    return [item.value for item in found]


def cluster() -> Overheard:
    api = Overheard()
    elsewhere = {**claim("far"), "metadata": {"name": "far", "namespace": "other"}}
    api.load([claim("big"), claim("bold"), elsewhere, pod("busy"), node("n1"), node("n2")])
    return api


async def test_names_are_those_of_the_namespace_that_begin_with_what_is_typed():
    async with serve(cluster()) as url:
        at = ("--server", url)
        assert await completed("explain", *at, "b") == ["big", "bold"]
        assert await completed("explain", *at, "-n", "other", "") == ["claim/", "pod/", "far"]
        assert await completed("explain", *at, "pod/b") == ["pod/busy"]
        assert await completed("explain", *at, "claim/bo") == ["claim/bold"]
        assert await completed("make-room", *at, "bi") == ["big"]
        assert await completed("drain", *at, "n") == ["n1", "n2"]
        assert await completed("top", *at, "--node", "n2") == ["n2"]


async def test_a_second_completion_asks_nothing():
    api = cluster()
    async with serve(api) as url:
        assert await completed("drain", "--server", url, "n1") == ["n1"]
        asked = len(api.methods)
        assert await completed("drain", "--server", url, "n2") == ["n2"]
        assert len(api.methods) == asked


async def test_nothing_is_said_if_the_cluster_cannot_be_read(cache: Path, capfd: pytest.CaptureFixture[str]):
    assert await completed("drain", "--server", "http://127.0.0.1:1", "n") == []
    (kept,) = os.listdir(cache)  # it is not asked again at the next key
    assert json.loads((cache / kept).read_bytes())[1] == []
    (cache / kept).write_text("{")
    assert await completed("drain", "--server", "http://127.0.0.1:1", "n") == []
    assert await completed("drain", "--context", "no-such-context", "n") == []
    assert capfd.readouterr() == ("", "")
