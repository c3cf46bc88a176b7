"""What `helm test` runs, as the account of the release on a server with its rights."""

import asyncio
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from reconciler.cli import main
from reconciler.embedded import serve
from tests.tools import chart, deployed_rights
from tests.tools.enforced_rights import cluster, kubeconfig
from tests.tools.koordinator_builders import gpu
from tests.tools.koordinator_cluster import machine
from tests.tools.rights_session import Rights
from tests.tools.small_fleet import device_class, devices, node

pytestmark = pytest.mark.loopback
OWNED = {"ownDrivers": ["gpu.example.com"]}


def script(values: dict[str, Any]) -> str:
    made = chart.objects(chart.texts(values))
    (hook,) = [one for one in made.values() if chart.is_hook(one)]
    assert hook["kind"] == "Pod"
    (container,) = hook["spec"]["containers"]
    assert container["command"] == ["/bin/sh", "-euc"]
    (text,) = container["args"]
    assert isinstance(text, str)
    return text


def commands(text: str) -> list[tuple[list[str], str]]:
    """The arguments of each command of the script, and its input."""
    found = re.findall(r"^dra-reconciler ([^<|\n]+)(?:<<'END'[^\n]*\n(.*?)^END$)?", text, re.M | re.S)
    return [(shlex.split(words), given) for words, given in found]


@pytest.mark.parametrize(
    ("values", "mode", "outputs"),
    [
        (OWNED, "allocate", ["0 errors", "fits: claim"]),
        ({"ownClasses": ["gpu"]}, "allocate", ["0 errors", "fits: claim"]),
        ({"mode": "shadow", "replicas": 1}, "shadow", ["0 errors", "fits: claim"]),
        ({"koordinator": True}, "allocate", ["0 errors", "fits: pod"]),
        ({**OWNED, "koordinator": True}, "allocate", ["0 errors", "fits: claim", "fits: pod"]),
        (
            {"mode": "shadow", "replicas": 1, "koordinator": True},
            "shadow",
            ["0 errors", "fits: claim", "fits: pod"],
        ),
    ],
    ids=["drivers", "classes", "shadow", "koordinator", "both", "shadow of both"],
)
async def test_the_commands_succeed_with_the_rights_of_the_account(
    values: dict[str, Any], mode: str, outputs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    granted = Rights({mode: deployed_rights.granted(mode)})
    granted.watch_servers(monkeypatch)
    found, api = cluster(mode)
    found.load(device_class(), node("a"), devices("a", "d0"), machine("a", gpu(0)))
    async with serve(api) as server:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, server)))
        ran = commands(script(values))
        assert len(ran) == len(outputs)
        for (words, given), told in zip(ran, outputs, strict=True):
            result = await asyncio.to_thread(CliRunner().invoke, main, words, input=given)
            assert result.exit_code == 0, (words, result.output)
            assert told in result.stdout, (words, result.output)
    assert api.refused == []
    assert api.judged == []
    assert granted.judge(whole=False) == []


def test_it_can_be_left_out():
    made = chart.objects(chart.texts({**OWNED, "tests": {"enabled": False}}))
    assert not any(map(chart.is_hook, made.values()))


def test_a_release_of_another_name_asks_for_its_own_held_room():
    made = chart.objects(chart.texts({**OWNED, "kueueCheck": "room"}, release="mine"))
    (hook,) = [one for one in made.values() if chart.is_hook(one)]
    (text,) = hook["spec"]["containers"][0]["args"]
    assert "--held-room dra-reconciler/mine-held-room " in text
    assert ("ConfigMap", "mine-held-room") in {
        (one["kind"], one["metadata"]["name"]) for one in made.values()
    }
