"""The lists beside the map: pending claims by reason, all nodes, what filters mean, links to all of it."""

import re
from datetime import timedelta

import pytest

from perf.fleets import mig
from reconciler.analysis.capacity.layout import fleet_layout
from reconciler.analysis.capacity.lines import lines
from reconciler.analysis.capacity.measure import Solver, measure
from reconciler.api.objects.gangs import GangKey, GangSource
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.validation.fields import timestamp
from reconciler.control.decisions.allocating import Allocated, Waits
from reconciler.control.gangs.planner import GangLine
from reconciler.operations.metrics.devices import STATES
from reconciler.operations.page.sources import GangEntry, PendingUnit
from tests.tools import builders, small_fleet, still_page
from tests.tools.gangs import annotated
from tests.tools.page_documents import Seen, page
from tests.tools.page_fleets import demonstration, small
from tests.tools.page_racks import fleet
from tests.tools.running_reconciler import Cluster
from tests.tools.still_page import NOON, Still
from tests.tools.watched_reconciler import ask, watched

pytestmark = pytest.mark.loopback


async def seen(still: Still, path: str = "/") -> Seen:
    answer = await ask(f"{still.url}{path}")
    assert answer.status == 200
    return Seen(answer.text)


def part(found: Seen, start: str, end: str = "") -> str:
    """The text between two headings."""
    after = found.text.partition(start)[2]
    return after.partition(end)[0] if end else after


def wait(still: Still, name: str, reason: str, minutes: int, *, pod: str = "") -> None:
    """Make a claim, or a pod with a claim of this name, pending."""
    key = ObjectKey("team", name)
    unit = ObjectKey("team", pod) if pod else key
    message = f"claim {key}, request r: 4 of 9 devices are free"
    still.waiting.append(PendingUnit("pod" if pod else "claim", unit, (key,), reason, message))
    still.created["claim", key] = timestamp(NOON - timedelta(minutes=minutes))


def badges(found: Seen) -> dict[str, int]:
    """The numbers in the links to the sections."""
    pairs = re.findall(r"(Fleet|Pending|Nodes|Map|Machines) (\d+)", part(found, "Filter", "Devices by"))
    return {name: int(number) for name, number in pairs}


async def test_pending_claims_are_grouped_by_reason_with_count_age_and_a_link_to_each():
    async with still_page.standing(small()) as still:
        wait(still, "young", "DevicesInUse", 3)
        wait(still, "old", "DevicesInUse", 200)
        wait(still, "typo", "ClassNotFound", 5000, pod="its-pod")
        found = await seen(still)
    told = part(found, "Pending claims", "Nodes")
    assert "3 claims are pending." in told
    # The reason with the oldest claim comes first, and in each reason the oldest claim.
    got = re.findall(r"(\w+) (\d+ claims?) oldest (\w+)", told)
    assert got == [("ClassNotFound", "1 claim", "3d11h"), ("DevicesInUse", "2 claims", "3h20m")]
    assert told.count("Create the DeviceClass, or correct deviceClassName.") == 1
    assert "team/typo 3d11h of pod team/its-pod request r: 4 of 9 devices are free" in told
    assert told.index("team/old 3h20m") < told.index("team/young 3m")
    links = {str(a["aria-label"]): str(a["href"]) for a in found.all("a") if a.get("aria-label")}
    assert links["Why claim team/young is pending"] == "/explanation?kind=claim&namespace=team&name=young"
    assert links["Why claim team/typo is pending"] == "/explanation?kind=pod&namespace=team&name=its-pod"


async def test_a_claim_of_several_pods_counts_once_and_a_pod_without_claims_as_a_pod():
    async with still_page.standing(small()) as still:
        wait(still, "shared", "DevicesInUse", 3, pod="one")
        wait(still, "shared", "DevicesInUse", 3, pod="two")
        still.waiting.append(PendingUnit("pod", ObjectKey("team", "early"), (), "ClaimNotMade", "not yet"))
        found = await seen(still)
    told = part(found, "Pending claims", "Nodes")
    assert "1 claim and 1 pod are pending." in told
    assert "ClaimNotMade 1 pod" in told
    assert "DevicesInUse 1 claim" in told
    assert badges(found)["Pending"] == 2


async def test_all_claims_of_a_reason_are_listed_page_by_page():
    async with still_page.standing(small()) as still:
        for number in range(120):
            wait(still, f"c-{number:03}", "DevicesInUse", 1000 - number)
        wait(still, "other", "ClassNotFound", 1)
        found = await seen(still)
        assert "All 120" in found.text
        (every,) = {str(a["href"]) for a in found.all("a") if "reason=" in str(a["href"])}
        assert every == "/?reason=DevicesInUse#waiting"
        listed: list[str] = []
        path = every
        while path:
            found = await seen(still, path.partition("#")[0])
            listed += [
                str(a["aria-label"]).split()[2]
                for a in found.all("a")
                if str(a["href"]).startswith("/explanation")
            ]
            path = str((found.all("a", rel="next") or [{"href": ""}])[0]["href"])
        assert listed == [f"team/c-{number:03}" for number in range(120)]
        assert "121 claims are pending." in found.text
        assert "DevicesInUse 120 claims" in found.text


async def test_ages_do_not_make_a_new_version():
    """Otherwise every open page would fetch the list twice a second."""
    async with still_page.standing(small()) as still:
        wait(still, "c", "DevicesInUse", 3)
        first = await seen(still)
        still.now = NOON + timedelta(hours=1)
        later = await seen(still)
    assert "team/c 3m" in first.text
    assert "team/c 63m" in later.text
    assert first.all("section", id="waiting") == later.all("section", id="waiting")


async def test_a_claim_without_a_valid_time_has_no_age():
    async with still_page.standing(small()) as still:
        wait(still, "c", "DevicesInUse", 3)
        still.created["claim", ObjectKey("team", "c")] = "yesterday"
        wait(still, "d", "DevicesInUse", 3)
        del still.created["claim", ObjectKey("team", "d")]
        assert "team/c request r" in (await seen(still)).text


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("node=zz", "No node matches zz; nodes: n1, n2."),
        ("driver=zz", "No driver matches zz; drivers: gpu.example.com."),
        ("claim=zz", "No claim matches zz; claims: default/first, default/greedy."),
        ("reason=zz", "No pending claim has the reason zz; reasons: DevicesInUse."),
    ],
)
async def test_a_filter_that_names_nothing_says_so(query: str, message: str):
    async with still_page.standing(small()) as still:
        wait(still, "c", "DevicesInUse", 3)
        assert message in (await seen(still, f"/?{query}")).text
        for good in ("node=n", "node=N2", "driver=gpu", "claim=FIRST", "claim=team/c", "reason=DevicesInUse"):
            assert "No " not in part(await seen(still, f"/?{good}"), "Map ", "Devices by")


async def test_filters_that_name_nothing_of_koordinators_say_so():
    async with still_page.standing([], fleet(30)) as still:
        told = (await seen(still, "/?node=zz&driver=zz&claim=zz")).text
        assert (
            "No node matches zz; nodes: rack-0, rack-1, rack-10, rack-11, rack-12, rack-13 and 24 more."
            in told
        )
        assert "No driver or type matches zz; drivers and types: fpga, gpu, rdma." in told
        assert "No claim or pod matches zz; claims and pods: none." in told
        assert "matches rack" not in (await seen(still, "/?node=rack-3&driver=gpu")).text


@pytest.mark.parametrize("number", [200, 700])
async def test_every_node_is_listed(number: int):
    names = [f"node-{at:04}" for at in range(number)]
    things = [*map(builders.node, names), *(builders.gpu_slice(name, 2) for name in names[: number // 2])]
    async with still_page.standing([builders.device_class(), *things]) as still:
        still.allocate(builders.claim("c", builders.request(count=2)))
        listed: list[str] = []
        path = "/"
        while path:
            found = await seen(still, path.partition("#")[0])
            assert badges(found)["Nodes"] == number
            listed += re.findall(r"(node-\d+) (?:\d+ %|–) \d \d", found.text)
            following = [a for a in found.all("a", rel="next") if str(a["href"]).endswith("#nodes")]
            path = str(following[0]["href"]) if following else ""
        assert sorted(listed) == names
        assert listed[0] == "node-0000"  # the only one in use
        assert "1 to 1 of 1 nodes that match the filter" in (await seen(still, "/?node=node-0150")).text


async def test_counts_agree_with_each_other_with_metrics_and_with_top():
    cluster = Cluster(demonstration())
    async with watched(cluster) as running:
        await running.heard(Allocated, 4)

        async def settled() -> bool:
            return "5 claims and 5 pods are pending." in (await page(running)).text

        await running.until(settled)
        found = await page(running)
        metrics = {
            (sample.labels["driver"], sample.labels["state"]): int(sample.value)
            for sample in (await running.families())["dra_reconciler_devices"].samples
        }
        pending = sum(
            sample.value for sample in (await running.families())["dra_reconciler_pending_claims"].samples
        )
    drivers = {driver for driver, _ in metrics}
    for driver in drivers:
        row = re.search(rf"{re.escape(driver)} ((?:\d+ ){{6}})", found.text)
        assert row is not None
        numbers = [int(text) for text in row[1].split()]
        assert numbers == [*(metrics[driver, state] for state in STATES), sum(numbers[:-1])]
    number = badges(found)
    assert number["Fleet"] == sum(metrics.values())
    assert number["Map"] == len(found.charts) == 5
    claims = re.search(r"(\d+) claims? and (\d+) pods? are pending", found.text)
    assert claims is not None
    assert int(claims[1]) == pending
    assert number["Pending"] == int(claims[1]) + int(claims[2])
    groups = re.findall(r"[A-Z]\w+ (\d+) (?:claim|pod)s? oldest", part(found, "Pending claims", "Nodes"))
    assert sum(map(int, groups)) == number["Pending"]
    nodes = re.findall(r"[\w-]+ (?:\d+ %|–) (\d+) (\d+)", part(found, "of 6 nodes"))
    shared = re.search(r"(\d+) devices are not local to one node", found.text)
    assert shared is not None
    assert number["Nodes"] == len(nodes) == 6
    assert sum(int(devices) for _, devices in nodes) + int(shared[1]) == number["Fleet"]


async def test_devices_are_counted_by_node_as_top_counts_them():
    async with still_page.standing(mig.fleet(3)) as still:
        still.allocate(*(mig_claim(at) for at in range(9)))
        found = await seen(still)
        snapshot = still.store.snapshot()
        counted = lines(measure(fleet_layout(snapshot.topology), snapshot.occupancy, Solver()), "node")
    listed = re.findall(r"(node-\d+)[^%]* \d+ % (\d+ \d+)", part(found, "of 3 nodes"))
    assert dict(listed) == {line.node: f"{line.held + line.shared} {line.devices}" for line in counted}


def mig_claim(at: int) -> builders.Object:
    return builders.claim(f"c-{at}", mig.partition("p", "1g.5gb"))


async def test_links_jump_to_every_section_from_every_page():
    async with still_page.standing(small(), fleet()) as still:
        for path in ("/", "/?node=zz", "/?reason=DevicesInUse"):
            found = await seen(still, path)
            links = [str(a["href"]) for a in found.all("a") if str(a["href"]).startswith("#")]
            ids = {str(one["id"]) for _, one in found.elements if one.get("id")}
            sections = ("heat", "fleet", "namespaces", "hour", "waiting", "nodes", "map", "machines")
            assert links == ["#map", *(f"#{section}" for section in sections)]
            assert {link[1:] for link in links} <= ids


async def test_an_incomplete_pool_is_named_on_its_chart_because_its_devices_are_not_counted():
    half = builders.resource_slice("half", builders.devices("a", "b"), slices=2, nodeName="n1")
    async with still_page.standing([builders.node("n1"), half]) as still:
        found = await seen(still)
    assert "Not allocated and not counted: 1 of 2 slices of generation 1 are published" in found.text
    assert badges(found)["Fleet"] == 0


async def test_gangs_are_listed_with_their_pods_and_why_they_are_pending():
    async with still_page.standing(small()) as still:
        assert "Gangs" not in (await seen(still)).text
        key = GangKey("team", GangSource.POD_GROUP, "train")
        line = GangLine(key, 4, gated=3, bound=1, released=0, nodes=1, domain=(("rack", "r1"),))
        still.gangs[key] = GangEntry(line, "GangUnplaced", "2 of 3 pods fit together")
        found = await seen(still)
    assert "team/train 4 1 bound, 3 gated rack=r1 GangUnplaced 2 of 3 pods fit together" in found.text
    assert "1 of 1 gang has gated pods" in found.text


async def test_gangs_of_a_cluster_are_on_the_page():
    cluster = Cluster([small_fleet.device_class(), small_fleet.node("n")])
    cluster.load(annotated("p0", size=2), annotated("q0", size=1, gang="h", gates=(), nodeName="n"))
    async with watched(cluster) as there:
        await there.told(Waits, reason="GangIncomplete")
        found = Seen((await ask(there.url)).text)
    assert "default/g 2 1 gated – GangIncomplete 1 of 2 pods exist default/h 1 1 bound –" in found.text
