"""`dra-reconciler top`: what it says of manifests and of a cluster, once and again and again."""

import asyncio
import json

import pytest
import yaml
from click.testing import CliRunner, Result

from reconciler.analysis.capacity.lines import CounterUsage, Line, ProfileUsage
from reconciler.api.objects.semantics import Semantics
from reconciler.cli import main
from reconciler.cli.cluster import Connection
from reconciler.cli.top import Gauge, follow_usage
from reconciler.cli.top_tables import usage_tables
from reconciler.embedded import serve
from reconciler.state.devices.snapshot import Snapshot
from tests.tools.builders import Object
from tests.tools.command_servers import Overheard
from tests.tools.partitioned_node import partitioned
from tests.tools.patience import PATIENCE
from tests.tools.short_manifests import gpus, together
from tests.tools.small_fleet import claim, held


def taken(*names: str, driver: str = "d", pool: str = "n1") -> Object:
    return {**claim("holder"), "status": held(driver, pool, *names)}


def top(*arguments: str, manifests: str = "") -> Result:
    return CliRunner().invoke(main, ["top", *arguments, *(["-f", "-"] if manifests else [])], input=manifests)


def text(objects: list[Object]) -> str:
    return yaml.safe_dump_all(objects)


def rows(result: Result) -> list[list[str]]:
    return [line.split() for line in result.stdout.splitlines()]


def test_partitions_are_counted_by_what_fits_at_the_same_time():
    result = top(manifests=text(partitioned()))
    assert result.exit_code == 0
    assert rows(result) == [
        ["DRIVER", "DEVICES", "HELD", "SHARED", "FREE", "BLOCKED", "TAINTED", "LARGEST", "FIT"],
        ["d", "4", "0", "0", "4", "0", "0", "whole"],
        [],
        ["DRIVER", "PROFILE", "DEVICES", "HELD", "FITS", "FRAGMENTED"],
        ["d", "whole", "1", "0", "1", "0%"],
        ["d", "half", "3", "0", "2", "0%"],
        [],
        ["DRIVER", "COUNTER", "TOTAL", "FREE", "STRANDED"],
        ["d", "mem", "10", "10", "0"],
        ["d", "slice-*", "2", "2", "0"],
    ]


def test_the_free_part_of_a_set_with_an_allocated_partition():
    (found,) = json.loads(top("-o", "json", manifests=text([*partitioned(), taken("left")])).stdout)["items"]
    assert (found["devices"], found["held"], found["allocatable"], found["blocked"]) == (4, 1, 2, 1)
    assert found["largestFit"] == "half"
    fits = {
        one["profile"]: (one["fits"], one["fitsAtMost"], one["fragmentation"]) for one in found["profiles"]
    }
    assert fits == {"whole": (0, 0, 1.0), "half": (1, 1, 0.0)}
    stranded = {one["counter"]: (one["left"], one["stranded"]) for one in found["counters"]}
    assert stranded == {"mem": ("6", "2"), "slice-*": ("1", "0")}  # a half needs 4 of the 6


def test_lines_are_drivers_pools_or_nodes():
    both = [*partitioned("n1"), *partitioned("n2"), taken("left")]
    pools = json.loads(top("--by", "pool", "-o", "json", manifests=text(both)).stdout)
    assert pools["by"] == "pool"
    assert [(one["pool"], one["held"]) for one in pools["items"]] == [("n1", 1), ("n2", 0)]
    nodes = yaml.safe_load(top("--by", "node", "-o", "yaml", manifests=text(both)).stdout)
    assert [(one["node"], one["largestFit"]) for one in nodes["items"]] == [("n1", "half"), ("n2", "whole")]
    (_, line) = rows(top("--node", "n1", manifests=text(both)))
    assert line == ["n1", "d", "4", "1", "0", "2", "1", "0", "half:", "1"]
    (_, line) = rows(top("--node", "n1", "-o", "wide", manifests=text(both)))
    assert line == ["n1", "d", "4", "1", "0", "2", "1", "0", "half:", "1", "mem:", "2"]
    ordered = json.loads(top("--by", "node", "--sort", "held", "-o", "json", manifests=text(both)).stdout)
    assert [one["node"] for one in ordered["items"]] == ["n1", "n2"]
    roomy = json.loads(top("--by", "node", "--sort", "fits", "-o", "json", manifests=text(both)).stdout)
    assert [one["node"] for one in roomy["items"]] == ["n2", "n1"]


def test_lines_are_filtered_by_driver():
    mixed = together(text(partitioned()), gpus("n2", 3))
    (found,) = json.loads(top("--driver", "gpu.example.com", "-o", "json", manifests=mixed).stdout)["items"]
    assert (found["driver"], found["devices"], found["largestFit"]) == ("gpu.example.com", 3, "device")
    other = top("--driver", "no.example.com", manifests=mixed)
    assert (other.exit_code, other.stdout) == (2, "")
    assert "there is no driver no.example.com; did you mean gpu.example.com?" in other.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-f", "-", "--server", "http://127.0.0.1:1"], "not both"),
        (["-f", "-", "--by", "driver", "--node", "n"], "--node needs --by node"),
    ],
)
def test_wrong_usage_is_reported(arguments: list[str], message: str):
    result = top(*arguments)
    assert (result.exit_code, message in result.stderr) == (2, True)


def test_an_unreachable_server_is_an_error():
    assert top("--server", "http://127.0.0.1:1").exit_code == 1


# -- a cluster


@pytest.mark.loopback
async def test_a_cluster_is_shown_once_without_a_terminal():
    api = Overheard()
    api.load([*partitioned(), taken("left")])
    async with serve(api) as url:
        result = await asyncio.to_thread(top, "--server", url, "-o", "json")
    (found,) = json.loads(result.stdout)["items"]
    assert (found["held"], found["largestFit"]) == (1, "half")
    assert set(api.methods) == {"GET"}


@pytest.mark.loopback
async def test_a_cluster_is_watched():
    api = Overheard()
    api.load(partitioned())
    pictures: asyncio.Queue[list[str]] = asyncio.Queue()
    gauge = Gauge()

    async def show(world: Snapshot) -> None:
        pictures.put_nowait([line.largest for line in gauge.lines(world, "driver")])

    async with serve(api) as url, asyncio.timeout(PATIENCE):
        connection = Connection(named=True, server=url, kubeconfig=None, context=None, insecure=False)
        task = asyncio.create_task(follow_usage(connection, Semantics(), show, 0.001))
        try:
            assert await pictures.get() == ["whole"]
            api.load([taken("left")])
            while await pictures.get() != ["half"]:
                pass
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    assert set(api.methods) == {"GET"}


def test_a_search_that_gave_up_is_shown_as_a_range():
    fits = ProfileUsage("p", devices=9, held=0, fits=2, at_most=4, size=0.5, fragmentation=None)
    left = CounterUsage("mem", 10**10, 10**10, 3 * 10**9, exact=False)
    line = Line("d", "", "", 9, 0, 0, 9, 0, 0, (fits,), (left,))
    _, profiles, counters = usage_tables([line], "driver", wide=False)
    assert profiles.rows == [("d", "p", "9", "0", "2-4", "-")]
    assert counters.rows[0][-1] == "3 or more"


@pytest.mark.parametrize("options", [(), ("-o", "json"), ("--koordinator",)])
def test_invalid_input_is_reported_and_the_rest_is_counted(options: tuple[str, ...]):
    result = top(*options, manifests=together(gpus("n1"), "kind: 5"))
    assert result.exit_code == 1
    assert "refused: " in result.stderr
    assert result.stdout == top(*options, manifests=gpus("n1")).stdout != ""
