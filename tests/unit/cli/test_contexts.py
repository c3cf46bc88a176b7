"""Several clusters at once: side by side, in parallel, and one that is down stops no other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from reconciler.cli import main
from reconciler.cli.connection import Connection
from reconciler.cli.contexts import Reached, ask_each
from reconciler.embedded import serve
from reconciler.errors import Retry
from tests.tools.http_servers import write_contexts
from tests.tools.output_schemas import fitting
from tests.tools.processes import served
from tests.tools.short_manifests import CLASS, claim, gpus, node, requests, together

pytestmark = pytest.mark.loopback

DOWN = "http://127.0.0.1:1"
EAST = together(CLASS, node("n1"), gpus("n1", 4), claim("c"))
WEST = together(CLASS, node("w1"), gpus("w1", 2), claim("c", count=3))


@asynccontextmanager
async def clusters(folder: Path) -> AsyncIterator[str]:
    """A kubeconfig with the contexts east and west, and one that is down."""
    async with serve(served(EAST)) as east, serve(served(WEST)) as west:
        yield write_contexts(folder / "config", east=east, down=DOWN, west=west)


async def run(config: str, *arguments: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, main, [*arguments, "--kubeconfig", config])


async def test_top_has_a_line_for_each_context_in_one_table(tmp_path: Path):
    async with clusters(tmp_path) as config:
        result = await run(config, "top", "--contexts", "east,west")
        assert result.exit_code == 0, result.output
        lines = result.stdout.splitlines()
        assert [line.split()[:3] for line in lines[:3]] == [
            ["CONTEXT", "DRIVER", "DEVICES"],
            ["east", "gpu.example.com", "4"],
            ["west", "gpu.example.com", "2"],
        ]
        assert [line.split()[:3] for line in lines[4:]] == [
            ["CONTEXT", "DRIVER", "PROFILE"],
            ["east", "gpu.example.com", "device"],
            ["west", "gpu.example.com", "device"],
        ]
        down = await run(config, "top", "--contexts", "all")
        assert down.exit_code == 1
        assert down.stdout == result.stdout
        assert "Error: context down: " in down.stderr
        one = await run(config, "top", "--contexts", "east,west", "--by", "node", "--node", "w1")
        assert [line.split()[0] for line in one.stdout.splitlines()] == ["CONTEXT", "west"]
        wrong = await run(config, "top", "--contexts", "east,west", "--by", "node", "--node", "w2")
        assert wrong.exit_code == 2
        assert "there is no node w2" in wrong.stderr
        nobody = await run(config, "top", "--contexts", "down,nobody", "-o", "json")
        assert nobody.exit_code == 3
        found = fitting("top", nobody.stdout)["contexts"]
        assert [(each["context"], each["result"]) for each in found] == [("down", None), ("nobody", None)]
        assert "there is no context nobody" in found[1]["problem"]


async def test_the_doctor_examines_each_and_ends_with_the_worst_code(tmp_path: Path):
    async with clusters(tmp_path) as config:
        result = await run(config, "doctor", "--contexts", "west,east")
        assert result.exit_code == 0, result.output
        lines = result.stdout.splitlines()
        assert [line for line in lines if line.startswith("context ")] == ["context west", "context east"]
        down = await run(config, "doctor", "--contexts", "all", "-o", "json")
        assert down.exit_code == 1
        found = fitting("doctor", down.stdout)["contexts"]
        assert [each["context"] for each in found] == ["east", "down", "west"]
        assert [each["result"] is None for each in found] == [False, True, False]
        assert found[0]["result"]["summary"]["error"] == 0


async def test_a_claim_is_explained_wherever_it_exists(tmp_path: Path):
    async with clusters(tmp_path) as config:
        result = await run(config, "explain", "c", "--contexts", "all")
        assert result.exit_code == 1, result.output  # a context has no answer
        east, west = result.stdout.split("context west\n")
        assert east.startswith("context east\n")
        assert "can be allocated" in east
        assert "default/c" in west
        assert "Error: context down: " in result.stderr
        refused = await run(config, "explain", "c", "--contexts", "west,down", "-o", "json")
        assert refused.exit_code == 1
        found = fitting("explain", refused.stdout)["contexts"]
        assert found[0]["result"][0]["allocatable"] is False
        assert found[1]["result"] is None
        unknown = await run(config, "explain", "nothing", "--contexts", "east,west")
        assert unknown.exit_code == 2
        assert unknown.stdout.count("there is no claim default/nothing") == 2


async def test_the_nodes_that_each_cluster_needs_are_printed_side_by_side(tmp_path: Path):
    """Two pairs of devices fit in the east, which has four, and one in the west, which has two."""
    demand = tmp_path / "demand.yaml"
    demand.write_text(
        "apiVersion: dra-reconciler.io/v1alpha1\nkind: Demand\n"
        f"items: [{{name: double, count: 2, spec: {requests(2)}}}]\n"
    )
    asked = ("capacity", "--demand", str(demand), "--contexts")
    async with clusters(tmp_path) as config:
        result = await run(config, *asked, "west,east")
        assert result.exit_code == 0, result.output
        lines = result.stdout.splitlines()
        assert lines[0] == "west: add 1 node like w1: proven cheapest"
        assert lines[1].startswith("west: 1 of 2 double does not fit now: ")
        assert lines[2] == "east: fits now: no node is needed"
        rows = [line.split() for line in lines]
        assert ["west", "double", "2", "1", "1", "w1"] in rows
        assert ["east", "double", "2", "2", "0"] in [row[:5] for row in rows]
        assert ["CONTEXT", "ADD", "NODES", "COST", "AT", "LEAST", "PROVEN"] in rows
        down = await run(config, *asked, "all", "-o", "json")
        assert down.exit_code == 1
        found = fitting("capacity", down.stdout)["contexts"]
        assert [each["context"] for each in found] == ["east", "down", "west"]
        assert [each["result"] and each["result"]["addNodes"] for each in found] == [{}, None, {"w1": 1}]
        named = await run(config, *asked, "east,west", "--shape", "w1")
        assert named.exit_code == 1
        assert "Error: context east: --shape: there is no node w1" in named.stderr
        assert "west: add 1 node like w1" in named.stdout
        nobody = await run(config, *asked, "down")
        assert nobody.exit_code == 3


def test_all_are_asked_at_the_same_time_and_answer_in_their_order():
    met = asyncio.Barrier(2)  # passes only if both wait at once

    async def ask(connection: Connection) -> str:
        await met.wait()
        if connection.context == "b":
            raise Retry("busy")
        return f"of {connection.context}"

    answers = ask_each(Connection(True, None, None, None, False), ["a", "b"], ask)
    assert answers == [Reached("a", "of a"), Reached("b", problem="busy")]


@pytest.mark.parametrize(
    "arguments",
    [
        ("top", "--contexts", "a,b", "--context", "a"),
        ("top", "--contexts", "a", "--server", DOWN),
        ("top", "--contexts", "a", "--koordinator"),
        ("top", "--contexts", ","),
        ("doctor", "--contexts", "a", "-o", "sarif"),
        ("doctor", "--contexts", "a", "-o", "name"),
        ("explain", "c", "--contexts", "a", "-f", "."),
        ("capacity", "--pending", "--contexts", "a", "-f", "."),
        ("capacity", "--contexts", "a"),
    ],
    ids=" ".join,
)
def test_what_does_not_go_with_several_contexts(arguments: tuple[str, ...]):
    assert CliRunner().invoke(main, arguments).exit_code == 2


def test_all_contexts_of_no_kubeconfig_are_an_error(tmp_path: Path):
    result = CliRunner().invoke(main, ["top", "--contexts", "all", "--kubeconfig", str(tmp_path / "none")])
    assert result.exit_code == 3
    assert "no kubeconfig with a context" in result.stderr
