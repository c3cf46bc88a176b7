"""Room that the leader holds, as commands on a cluster know it: it is free for its nominee only."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from reconciler.api.objects.changes import Changed
from reconciler.api.objects.gangs import GANG, SIZE
from reconciler.api.objects.meta import DeviceID
from reconciler.api.objects.semantics import Semantics
from reconciler.api.validation.served_kinds import CLAIM, CONFIG_MAP
from reconciler.api.versions.reading import read
from reconciler.cli import main
from reconciler.cli.cluster import FollowedRoom
from reconciler.cli.connection import Connection
from reconciler.cli.top import follow_usage
from reconciler.cluster.client import Client
from reconciler.cluster.transport import Response
from reconciler.embedded import ApiServer, serve
from reconciler.state.nominations import NOBODY, HeldPlace, Nomination, of_pod, text_of
from reconciler.state.store import Store
from tests.tools.http_servers import write_contexts
from tests.tools.patience import PATIENCE
from tests.tools.processes import answered
from tests.tools.scripted_transport import Scripted, ok, status
from tests.tools.small_fleet import DRIVER, Object, claim, device_class, devices, node, pod, template
from tests.tools.small_fleet import held as allocated
from tests.tools.unit_pictures import key

pytestmark = pytest.mark.loopback

SOON = (datetime.now(UTC) + timedelta(days=1)).isoformat(timespec="seconds")
DEFAULT = "dra-reconciler/dra-reconciler-held-room"


def record(text: str, name: str = DEFAULT) -> Object:
    namespace, _, last = name.partition("/")
    metadata = {"name": last, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"heldRoom": text}}


def held(deadline: str = SOON, nominee: str = "urgent") -> str:
    """One of the two devices of the only node, for a pod."""
    place = HeldPlace("a", (DeviceID(DRIVER, "a", "d0"),), ())
    return text_of([Nomination(of_pod(key(nominee)), (place,), 0, 0.0, deadline)])


def cluster(*objects: Object) -> ApiServer:
    api = ApiServer()
    api.load([device_class(), node("a"), devices("a", "d0", "d1"), *objects])
    api.load([claim("two", 2), claim("one"), claim("theirs", 2), pod("urgent", "theirs")])
    return api


async def ask(api: ApiServer, *arguments: str) -> Result:
    return await answered(api, *arguments, catch_exceptions=False)


async def test_explain_says_for_whom_a_device_is_held_and_until_when():
    result = await ask(cluster(record(held())), "explain", "two", "-n", "default")
    assert result.exit_code == 1
    assert f"1 held for pod default/urgent until {SOON.partition('T')[2]}" in result.stdout


async def test_explain_gives_the_nominee_its_room_and_notes_it():
    result = await ask(cluster(record(held())), "explain", "urgent", "--pod", "-n", "default")
    assert result.exit_code == 0, result.output
    assert "note: room on a is held for pod default/urgent until" in result.stderr
    assert f"{DRIVER}/a/d0" in result.stderr


@pytest.mark.parametrize(
    "text",
    ["[]", held("2001-01-01T00:00:00Z"), held(nominee="nobody"), held("at noon")],
    ids=["nothing", "expired", "gone", "no time"],
)
async def test_explain_ignores_what_is_not_held_any_more(text: str):
    result = await ask(cluster(record(text)), "explain", "two", "-n", "default")
    assert result.exit_code == 0, result.output


async def test_an_empty_name_asks_for_no_held_room():
    """Nor for a right: an account without it, as in shadow mode, is not told that it lacks one."""
    result = await ask(cluster(record(held())), "explain", "two", "-n", "default", "--held-room", "")
    assert result.exit_code == 0, result.output
    assert "note: " not in result.stderr


@pytest.mark.parametrize("text", ["{", '[{"nominee": 1}]'])
async def test_a_record_that_cannot_be_read_is_noted(text: str):
    result = await ask(cluster(record(text)), "explain", "two", "-n", "default")
    assert result.exit_code == 0, result.output
    assert "note: " in result.stderr
    assert DEFAULT in result.stderr


async def test_another_config_map_can_be_named_and_must_exist():
    api = cluster(record(held(), "other/room"))
    result = await ask(api, "explain", "two", "-n", "default", "--held-room", "other/room")
    assert result.exit_code == 1
    result = await ask(api, "explain", "two", "-n", "default", "--held-room", "other/none")
    assert result.exit_code == 0, result.output
    assert "note: held room is not considered" in result.stderr


async def test_a_name_without_a_namespace_is_a_wrong_use():
    result = await ask(cluster(), "explain", "two", "-n", "default", "--held-room", "room")
    assert result.exit_code == 2
    assert "--held-room room: write NAMESPACE/NAME of a ConfigMap" in result.stderr


async def test_whatif_places_nothing_on_held_devices(tmp_path: Path):
    question = tmp_path / "asked.yaml"
    question.write_text(yaml.safe_dump(claim("asked", 2)))
    free = await ask(cluster(), "whatif", "-f", str(question))
    assert free.exit_code == 0, free.output
    result = await ask(cluster(record(held())), "whatif", "-f", str(question))
    assert result.exit_code == 1, result.output


async def test_make_room_uses_held_room_for_its_nominee_only():
    api = cluster(record(held()))
    theirs = await ask(api, "make-room", "urgent", "--pod", "-n", "default", "-o", "json")
    assert json.loads(theirs.stdout)["fits"]
    assert theirs.exit_code == 0
    others = await ask(cluster(record(held())), "make-room", "two", "-n", "default", "-o", "json")
    assert not json.loads(others.stdout)["fits"]


async def test_fit_counts_no_held_device(tmp_path: Path):
    containers = [{"name": "main", "image": "example.com/main"}]
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    spec = {"containers": containers, "resourceClaims": claims}
    sets = [{"name": "all", "count": 2, "template": {"spec": spec}}]
    request = {"apiVersion": "dra-reconciler.io/v1alpha1", "kind": "FitRequest", "podSets": sets}
    asked = tmp_path / "asked.yaml"
    asked.write_text(yaml.safe_dump_all([request, template("one")]))
    free = await ask(cluster(), "fit", "-f", str(asked), "-o", "json")
    result = await ask(cluster(record(held())), "fit", "-f", str(asked), "-o", "json")
    fitting = [json.loads(one.stdout)["podSets"][0]["fits"] for one in (free, result)]
    assert fitting == [2, 1]


async def test_top_counts_held_devices_as_held_and_says_for_whom():
    result = await ask(cluster(record(held())), "top", "--once", "-o", "json")
    (line,) = json.loads(result.stdout)["items"]
    assert (line["devices"], line["held"], line["allocatable"]) == (2, 1, 1)
    assert "note: room on a is held for pod default/urgent until" in result.stderr


async def test_top_reads_held_room_again_while_it_is_shown():
    api, free = cluster(record(held())), asyncio.Queue[int]()

    async def show(store: Store) -> None:
        free.put_nowait(int(store.snapshot_for(NOBODY).occupancy.free.sum()))

    async with serve(api) as url, asyncio.timeout(PATIENCE):
        connection = Connection(True, url, None, None, False, held_room=(DEFAULT,))
        task = asyncio.create_task(follow_usage(connection, Semantics(), show, 0.001))
        try:
            assert await free.get() == 1
            api.delete(CONFIG_MAP, *DEFAULT.split("/"))
            while await free.get() != 2:
                pass
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    ("answers", "days", "free"),
    [
        pytest.param([503], 0, [1, 1], id="kept while it cannot be read"),
        pytest.param([503, 503], 2, [1, 1, 2], id="at its deadline it ends"),
        pytest.param([403], 0, [1, 2], id="what must not be read is not held"),
    ],
)
async def test_room_that_cannot_be_read_again_is_held_until_its_deadline(
    answers: list[int], days: int, free: list[int]
):
    now, state = datetime.now(UTC), Store(Semantics())
    for one in (node("a"), devices("a", "d0", "d1")):
        state.apply(Changed(one["kind"], read(one)))
    transport = Scripted(ok(record(held())), *map(status, answers))
    room, found = FollowedRoom(Client(transport), [DEFAULT], lambda: now), []
    for at in range(len(answers) + 1):
        now += timedelta(days=days) if at == 2 else timedelta()
        await room.hold(state)
        found.append(int(state.snapshot_for(NOBODY).occupancy.free.sum()))
    assert found == free


@pytest.mark.parametrize(
    ("name", "answers", "said"),
    [
        pytest.param("x/typo", [status(404, "no typo")] * 3, ["no typo"], id="missing"),
        pytest.param(DEFAULT, [status(404, "none")] * 3, [], id="the default may be missing"),
        pytest.param(DEFAULT, [status(403, "forbidden")], ["forbidden"], id="forbidden"),
        pytest.param(DEFAULT, [ok(record("}"))] * 3, ["ConfigMap"], id="of another shape"),
        pytest.param(
            DEFAULT, [ok(record("}")), status(404), ok(record("}"))], ["ConfigMap"], id="now and again"
        ),
    ],
)
async def test_what_cannot_be_read_while_it_is_shown_is_said_once(
    name: str, answers: list[Response], said: list[str], capsys: pytest.CaptureFixture[str]
):
    room = FollowedRoom(Client(Scripted(*answers)), [name])
    for _ in range(3):
        await room.hold(Store(Semantics()))
    found = capsys.readouterr().err.splitlines()
    assert len(found) == len(said)
    assert all(text in line for text, line in zip(said, found, strict=True))


async def test_top_of_gangs_says_what_held_room_keeps_them_from():
    member = pod("member", "two")
    member["metadata"]["annotations"] = {GANG: "g", SIZE: "1"}
    free = await ask(cluster(member), "top", "--gangs", "-o", "json")
    result = await ask(cluster(record(held()), member), "top", "--gangs", "-o", "json")
    assert "can be placed now" in free.stdout
    assert "Short: 2 devices of class gpu" in result.stdout
    assert "note: room on a is held for pod default/urgent until" in result.stderr


@pytest.mark.parametrize("command", [("top",), ("capacity", "--pending")], ids=" ".join)
async def test_of_several_clusters_each_note_names_its_context(command: tuple[str, ...], tmp_path: Path):
    async with serve(cluster(record(held()))) as east, serve(cluster(record("}"))) as west:
        config = write_contexts(tmp_path / "config", east=east, west=west)
        named = ["--contexts", "east,west", "--held-room", DEFAULT, "--held-room", "x/typo"]
        arguments = [*command, *named, "--kubeconfig", config]
        result = await asyncio.to_thread(CliRunner().invoke, main, arguments)
    notes = [line for line in result.stderr.splitlines() if line.startswith("note: ")]
    assert sum(line.startswith("note: context east: room on a is held for") for line in notes) == 1
    not_considered = "held room is not considered: "
    assert sum(line.startswith(f"note: context west: {not_considered}ConfigMap") for line in notes) == 1
    missing = {f"note: context {name}: {not_considered}" for name in ("east", "west")}
    assert {line.partition("GET")[0] for line in notes if "typo" in line} == missing


async def test_capacity_uses_held_room_for_what_it_is_held_for_only(tmp_path: Path):
    demand = tmp_path / "demand.yaml"
    demand.write_text(yaml.safe_dump(claim("asked", 2)))
    api = cluster(record(held()))
    free = await ask(cluster(), "capacity", "--demand", str(demand), "-o", "json")
    result = await ask(api, "capacity", "--demand", str(demand), "-o", "json")
    assert [json.loads(one.stdout)["items"][0]["fitNow"] for one in (free, result)] == [1, 0]
    assert "note: room on a is held for pod default/urgent until" in result.stderr
    placed = []
    for nominee in ("urgent", "elsewhere"):
        api = cluster(record(held(nominee=nominee)))
        api.delete(CLAIM, "default", "one")
        result = await ask(api, "capacity", "--pending", "-o", "json")
        placed.append(sum(one["fitNow"] for one in json.loads(result.stdout)["items"]))
    assert placed == [1, 0]


async def test_defragment_moves_nothing_to_held_devices():
    """Pods of two nodes could share one; the other devices of both are held."""
    api = ApiServer()
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
    api.load([device_class(), node("a"), node("b"), devices("a", "d0", "d1"), devices("b", "d0", "d1")])
    for on in "ab":
        made = pod(on, on, gates=(), nodeName=on)
        made["metadata"]["ownerReferences"] = [owner]
        api.load([{**claim(on), "status": allocated(DRIVER, on, "d0", on=on)}, made])
    free = await ask(api, "defragment", "--gain", "node=1", "-o", "json")
    places = tuple(HeldPlace(on, (DeviceID(DRIVER, on, "d1"),), ()) for on in "ab")
    api.load([pod("urgent", "two"), claim("two", 2)])
    api.load([record(text_of([Nomination(of_pod(key("urgent")), places, 0, 0.0, SOON)]))])
    result = await ask(api, "defragment", "--gain", "node=1", "-o", "json")
    assert [json.loads(one.stdout)["gain"] for one in (free, result)] == [1, 0]
