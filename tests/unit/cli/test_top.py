"""The usage of devices, the learnt demand, and gangs."""

import asyncio
import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from reconciler.allocation.policies.demand import Demand, Shape
from reconciler.analysis.capacity.lines import CounterUsage, Gauge, Line, ProfileUsage
from reconciler.analysis.capacity.measure import Solver
from reconciler.api.objects.claims import ResourceClaimSpec
from reconciler.api.objects.semantics import Semantics
from reconciler.cli import main
from reconciler.cli.connection import Connection
from reconciler.cli.top import follow_usage
from reconciler.cli.top_tables import NO_DEVICES, TopOptions, UsageView, usage_tables
from reconciler.embedded import ApiServer, serve
from reconciler.state.store import Store
from tests.tools.builders import Object, device, partitioned, resource_slice
from tests.tools.checkout import ROOT
from tests.tools.gangs import annotated
from tests.tools.patience import PATIENCE
from tests.tools.processes import Overheard, answered
from tests.tools.short_manifests import gpus, together
from tests.tools.small_fleet import claim, claim_spec, device_class, devices, held, node, template


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
    assert (found["physicalDevices"], found["fullDevices"], found["use"]) == (1, 0, 0.5)
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
    assert line == ["n1", "d", "4", "1", "0", "2", "1", "0", "half:", "1", "50%", "0", "of", "1", "mem:", "2"]
    ordered = json.loads(top("--by", "node", "--sort", "held", "-o", "json", manifests=text(both)).stdout)
    assert [one["node"] for one in ordered["items"]] == ["n1", "n2"]
    roomy = json.loads(top("--by", "node", "--sort", "fits", "-o", "json", manifests=text(both)).stdout)
    assert [one["node"] for one in roomy["items"]] == ["n2", "n1"]


def racks() -> list[Object]:
    """Three nodes in two racks; one is in none. A claim holds half of a device, two claims are pending."""
    places = {"n1": {"rack": "r1"}, "n2": {"rack": "r2"}, "n3": {}}
    made = [one for name in places for one in partitioned(name) if one["kind"] != "Node"]
    made += [node(name, **labels) for name, labels in places.items()]
    waiting = [{**claim(name), "metadata": {"name": name, "namespace": "b"}} for name in ("w1", "w2")]
    for one, created in zip(waiting, ("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"), strict=True):
        one["metadata"]["creationTimestamp"] = created
    return [*made, taken("left"), *waiting]


def test_lines_are_labels_of_nodes_or_models():
    result = json.loads(top("--by", "label=rack", "-o", "json", manifests=text(racks())).stdout)
    assert result["by"] == "label=rack"
    counts = [(one["group"], one["devices"], one["held"], one["use"]) for one in result["items"]]
    assert counts == [(None, 4, 0, 0.0), ("r1", 4, 1, 0.5), ("r2", 4, 0, 0.0)]
    heading, *lines = rows(top("--by", "label=rack", manifests=text(racks())))
    assert heading[:3] == ["RACK", "DRIVER", "DEVICES"]
    assert [line[0] for line in lines] == ["-", "r1", "r2"]
    unknown = top("--by", "label=rakc", manifests=text(racks()))
    assert (unknown.exit_code, "no label rakc; did you mean rack?" in unknown.stderr) == (2, True)
    models = [
        device("a", {"productName": "H100"}), device("b", {"model": "H100"}),
        device("c", {"model": "MI300"}), device("d"),
    ]  # fmt: skip
    found = top("--by", "model", "-o", "json", manifests=text([resource_slice("s", models, nodeName="n")]))
    sizes = [(one["group"], one["devices"]) for one in json.loads(found.stdout)["items"]]
    assert sizes == [(None, 1), ("H100", 2), ("MI300", 1)]


def test_lines_are_namespaces():
    result = json.loads(top("--by", "namespace", "-o", "json", manifests=text(racks())).stdout)
    pending = {"namespace": "b", "held": 0, "use": 0.0, "pending": 2, "oldestPending": "2026-01-01T00:00:00Z"}
    holding = {"namespace": "default", "held": 1, "use": 0.1667, "pending": 0, "oldestPending": None}
    assert result["items"] == [pending, holding]
    ordered = rows(top("--by", "namespace", "--sort", "held", manifests=text(racks())))
    assert [line[:4] for line in ordered[1:]] == [["default", "1", "17%", "0"], ["b", "0", "0%", "2"]]


def test_the_screen_shows_the_notes_that_are_printed():
    view = UsageView(TopOptions("driver", (), (), "name", "table", live=True, interval=1))
    view.take([])
    view.notes = ["note: pool d/p cannot be used: 1 of 2 slices"]
    assert [line.text for line in view.lines(80)] == [NO_DEVICES, "", *view.notes]


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
        (["-f", "-", "--by", "label="], "is none of driver, pool, node, model, namespace, label=KEY"),
        (["-f", "-", "--by", "namespace", "--driver", "d"], "--by namespace has no --driver"),
        (["-f", "-", "--by", "namespace", "--sort", "fits"], "is sorted by name, held, pending"),
    ],
)
def test_wrong_usage_is_reported(arguments: list[str], message: str):
    result = top(*arguments)
    assert (result.exit_code, message in result.stderr) == (2, True)


# -- a cluster


@pytest.mark.loopback
async def test_a_cluster_is_shown_once_without_a_terminal():
    api = Overheard()
    api.load([*partitioned(), taken("left")])
    result = await answered(api, "top", "-o", "json")
    (found,) = json.loads(result.stdout)["items"]
    assert (found["held"], found["largestFit"]) == (1, "half")
    assert set(api.methods) == {"GET"}


@pytest.mark.loopback
async def test_a_cluster_is_watched():
    api = Overheard()
    api.load(partitioned())
    pictures: asyncio.Queue[list[str]] = asyncio.Queue()
    gauge = Gauge(Solver())

    async def show(store: Store) -> None:
        pictures.put_nowait([line.largest for line in gauge.lines(store.snapshot(), "driver")])

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
    line = Line("d", "", "", 9, 0, 0, 9, 0, 0, (fits,), (left,), 1, 0, 0.5)
    _, profiles, counters = usage_tables([line], "driver", wide=False)
    assert profiles.rows == [("d", "p", "9", "0", "2-4", "-")]
    assert counters.rows[0][-1] == "3 or more"


@pytest.mark.parametrize("options", [(), ("-o", "json"), ("--koordinator",)])
def test_invalid_input_is_reported_and_the_rest_is_counted(options: tuple[str, ...]):
    result = top(*options, manifests=together(gpus("n1"), "kind: 5"))
    assert result.exit_code == 1
    assert "refused: " in result.stderr
    assert result.stdout == top(*options, manifests=gpus("n1")).stdout != ""


pytestmark = pytest.mark.loopback

DEMAND = Demand((Shape(ResourceClaimSpec.model_validate(claim_spec(2)), 500, 3000),))
ROWS = [["first-fit", False, 3, 1, 2, 0.25], ["least-loss", True, 6, 0, 0, 0.0]]
COMPARISON = json.dumps({"samples": 6, "policies": ROWS})
DATA = {"demand": DEMAND.to_json(), "at": "2026-01-01T12:00:00+00:00", "comparison": COMPARISON}


async def shown(*arguments: str, **data: str) -> Result:
    """The output for a ConfigMap with this data."""
    api = ApiServer()
    metadata = {"name": "demand", "namespace": "ours"}
    api.load([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}])
    return await answered(api, "top", *arguments)


async def test_people_get_tables():
    found = await shown("--demand", "ours/demand", **DATA)
    assert found.exit_code == 0
    lines = [line.split() for line in found.stdout.splitlines() if line]
    assert ["2", "of", "class", "gpu;", "CPU", "500m", "100.0%"] in lines
    assert ["least-loss", "yes", "6", "0", "0", "0.00"] in lines
    assert "6 sampled decisions" in found.stdout


async def test_programs_get_json():
    found = await shown("--demand", "ours/demand", "-o", "json", **DATA)
    told = json.loads(found.stdout)
    assert told["demand"] == [{"shape": "2 of class gpu; CPU 500m", "share": 1.0}]
    assert told["samples"] == 6
    counts = {"same": 3, "otherDevices": 1, "otherNode": 2, "placesLost": 0.25}
    assert told["policies"][0] == {"policy": "first-fit", "used": False, **counts}


async def test_a_comparison_that_cannot_be_read_is_left_out_with_a_warning():
    found = await shown("--demand", "ours/demand", **{**DATA, "comparison": "{}"})
    assert found.exit_code == 0
    assert "warning: ConfigMap ours/demand: comparison: not a comparison" in found.stderr
    assert "2 of class gpu" in found.stdout


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("ours/demand", {}, "holds no demand yet"),
        ("ours/other", {}, "there is no ConfigMap ours/other"),
        ("ours/demand", {**DATA, "at": "x"}, "must be a time in RFC 3339 format"),
        ("demand", {}, "needs NAMESPACE/NAME"),
    ],
)
async def test_what_is_missing_is_said(name: str, data: dict[str, str], said: str):
    found = await shown("--demand", name, **data)
    assert found.exit_code > 0
    assert said in found.output + found.stderr


EXAMPLE = ROOT / "docs" / "examples" / "gang-podgroup.yaml"


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, list(arguments))
    return result.exit_code, result.output


def too_large(folder: Path) -> str:
    """A gang of two for one device."""
    pods = [annotated(name, size=2, templates=("t",)) for name in ("p0", "p1")]
    objects = [device_class(), node("n"), devices("n", "d0"), template("t"), *pods]
    path = folder / "gang.json"
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}))
    return str(path)


def test_allocate_places_a_gang_in_one_domain_with_one_claim_for_the_group():
    code, output = run("allocate", "-f", str(EXAMPLE))
    assert code == 0
    assert "gang default/pair: 2 pods placed, all in example.com/rack=r1: pair-0 on node-a" in output
    assert output.count("default/pair-channel") == 1


def test_allocate_places_a_tree_in_one_block():
    code, output = run("allocate", "-f", str(EXAMPLE.with_name("gang-tree.yaml")))
    assert code == 0
    assert "gang default/train: 4 pods placed, all in example.com/block=b2" in output
    code, output = run("top", "--gangs", "-f", str(EXAMPLE.with_name("gang-tree.yaml")))
    assert (code, "can be placed now" in output) == (0, True)


def test_allocate_names_the_group_of_a_tree_that_was_left_out(tmp_path: Path):
    text = EXAMPLE.with_name("gang-tree.yaml").read_text()
    path = tmp_path / "tree.yaml"
    path.write_text(text.replace("minGroupCount: 2", "minGroupCount: 1").replace("block: b2", "block: b3", 2))
    code, output = run("allocate", "-f", str(path))
    assert code == 1
    why = "its gang has its minimum, and its group default/replica-1 cannot be placed as a whole"
    assert output.count(why) == 2


@pytest.mark.parametrize("command", ["allocate", "explain --pod replica-0-0", "whatif --count 1"])
def test_a_group_that_a_server_refuses_is_refused_alone(tmp_path: Path, command: str):
    """Its pods wait for it, and so does its tree; everything else is answered."""
    other = claim("other", device_class="gpu.example.com")
    path = tmp_path / "tree.yaml"
    text = EXAMPLE.with_name("gang-tree.yaml").read_text()
    reference = "  workloadRef:\n    workloadName: train\n    templateName: replica\n"
    path.write_text(f"{text.replace(reference, '', 1)}\n---\n{yaml.safe_dump(other)}")
    code, output = run(*command.split(), "-f", str(path))
    why = "must be specified when `parentCompositePodGroupName` is set"
    assert f"PodGroup default/replica-0: spec.workloadRef: Required value: {why}" in output
    assert code != 0
    if command == "allocate":
        assert "PodGroup default/replica-0, which pod default/replica-0-0 names, does not exist" in output
        assert "1 claim allocated" in output


@pytest.mark.parametrize("command", ["allocate", "explain --pod p1", "whatif --count 1"])
def test_what_a_gang_lacks_is_said(tmp_path: Path, command: str):
    code, output = run(*command.split(), "-f", too_large(tmp_path))
    assert (code, "1 of 2 pods fit together" in output) == (1, True)
    assert ("0 claims allocated, 2 pending" in output) == (command == "allocate")


def test_whatif_says_where_a_gang_fits_and_how_often():
    code, output = run("whatif", "-f", str(EXAMPLE))
    assert code == 0
    assert "fits once: gang default/pair" in output
    assert "copy 1 of gang default/pair: 2 pods on 2 nodes, all in example.com/rack=r1" in output
    assert "copy 2 does not fit: gang default/pair: GangUnplaced" in output
    _, output = run("whatif", "-f", str(EXAMPLE), "-o", "json")
    found = json.loads(output)["gangs"][0]["pods"]
    assert [one["unit"] for one in found] == ["pod default/pair-0", "pod default/pair-1"]


def test_top_lists_gangs_with_their_pods_and_what_they_wait_for(tmp_path: Path):
    code, output = run("top", "--gangs", "-f", too_large(tmp_path))
    assert code == 0
    assert output.split()[:8] == ["GANG", "SOURCE", "SIZE", "BOUND", "RELEASED", "GATED", "DOMAIN", "PENDING"]
    assert "default/g" in output
    assert "GangUnplaced" in output
    _, output = run("top", "--gangs", "-o", "json", "-f", too_large(tmp_path))
    (gang,) = json.loads(output)["gangs"]
    assert (gang["size"], gang["gated"], gang["bound"], gang["reason"]) == (2, 2, 0, "GangUnplaced")


def test_top_shows_the_domain_of_a_gang_that_runs(tmp_path: Path):
    pods = [annotated(f"p{n}", size=2, topology="rack", gates=(), nodeName=f"n{n}") for n in range(2)]
    waiting = [annotated(f"q{n}", size=2, gang="h") for n in range(2)]
    objects = [node("n0", rack="r1"), node("n1", rack="r1"), *pods, *waiting]
    path = tmp_path / "gangs.json"
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}))
    _, output = run("top", "--gangs", "-o", "json", "-f", str(path))
    waits, runs = json.loads(output)["gangs"]
    assert (waits["name"], waits["message"]) == ("h", "can be placed now")
    assert (runs["bound"], runs["nodes"], runs["domain"]) == (2, 2, {"rack": "r1"})


def test_top_of_gangs_has_no_other_groups():
    code, output = run("top", "--gangs", "--by", "node", "-f", str(EXAMPLE))
    assert code == 2
    assert "--gangs has no --by" in output
