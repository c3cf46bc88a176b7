"""The tutorial is typed step by step, in this process; `kubectl` stands for requests to the server."""

import asyncio
import re
import shlex
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import pytest
import yaml
from click.testing import CliRunner

from reconciler.api.validation.served_kinds import CLAIM, POD
from reconciler.cli import main
from reconciler.embedded import serve
from reconciler.operations.log_setup import configure
from tests.tools.checkout import DOCS, ROOT
from tests.tools.running_reconciler import Cluster, reconciling

pytestmark = pytest.mark.loopback
FOLDER = DOCS / "tutorial"
PAGE = (FOLDER / "README.md").read_text()
SERVER = "http://127.0.0.1:8001"
_KINDS = {"pod": POD, "resourceclaim": CLAIM}
_GROUPS = {"": "", "resource.k8s.io": ".resource.k8s.io"}


class Step(NamedTuple):
    """A command, and the output that the page shows."""

    words: list[str]
    shown: list[str]


def steps() -> Iterator[Step]:
    for block in re.findall(r"^```\n\$ (.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        command, *shown = block.splitlines()
        yield Step(shlex.split(command), shown)


def fits(shown: list[str], lines: list[str]) -> bool:
    """Whether lines are those that the page shows; `...` stands for any number of them."""
    pattern = "\n".join(".*" if line == "..." else re.escape(line) for line in shown)
    return re.fullmatch(pattern, "\n".join(lines), re.DOTALL) is not None


def applied(found: Cluster, path: str) -> list[str]:
    raws = [one for one in yaml.safe_load_all((ROOT / path).read_text()) if one]
    found.load(*({**raw, "metadata": {"namespace": "default", **raw["metadata"]}} for raw in raws))
    return [f"{typed(raw['kind'], raw['apiVersion'])}/{raw['metadata']['name']} created" for raw in raws]


def typed(kind: str, version: str) -> str:
    return kind.lower() + _GROUPS[version.rpartition("/")[0]]


def kubectl(found: Cluster, words: list[str]) -> list[str]:
    """What kubectl would do and print."""
    assert words[0] == f"--server={SERVER}"
    match words[1:]:
        case ["apply", "-f", path]:
            return applied(found, path)
        case ["delete", kind, name, *_]:
            found.api.delete(_KINDS[kind], "default", name)
            version = _KINDS[kind].stored.group
            return [f'{typed(kind, f"{version}/")} "{name}" deleted']
    raise AssertionError(words)


def held(found: Cluster) -> bool:
    return bool(found.devices("notebook")) and not found.gated("trainer")


def claimed(found: Cluster) -> bool:
    return sum(one["metadata"]["name"].startswith("worker-") for one in found.claims()) == 2


def placed(found: Cluster) -> bool:
    return not found.gated("worker-0") and not found.gated("worker-1")


THEN = {"docs/tutorial/claims.yaml": held, "docs/tutorial/gang.yaml": claimed, "--wait=false": placed}
"""Last word of a command -> what happens before somebody types the next one"""


async def test_each_step_prints_what_the_page_shows():
    fleet = re.search(r"run --embedded --port 8001 -f (\S+)$", PAGE, re.MULTILINE)
    assert fleet is not None
    configure("error")  # the log goes to standard error, as in `run`
    found = Cluster([])
    applied(found, fleet[1])
    async with serve(found.api) as url, reconciling(found, controllers=True):
        for words, shown in steps():
            if words[0] == "kubectl":
                lines = kubectl(found, words[1:])
            else:
                arguments = [word.replace(SERVER, url) for word in words[1:]]
                result = await asyncio.to_thread(CliRunner().invoke, main, arguments)
                assert result.exit_code in (0, 1), (words, result.output)
                lines = result.stdout.splitlines()
            assert fits(shown, lines), "\n".join([shlex.join(words), *lines])
            if words[-1] in THEN:
                await found.until(partial(THEN[words[-1]], found))


def test_every_file_of_the_tutorial_is_used():
    assert {path.name for path in FOLDER.glob("*.yaml")} == set(re.findall(r"docs/tutorial/(\S+)", PAGE))
