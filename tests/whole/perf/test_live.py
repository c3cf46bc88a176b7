"""Measurements on a server leave nothing behind, and refuse what a fleet has no room for."""

import pytest
from click.testing import CliRunner

from perf.__main__ import main
from perf.fleets import mig
from perf.fleets.objects import Json
from perf.live import DELETED, SPACE, Cluster, announced_namespace, cluster
from perf.workloads.live import WORKLOADS, labelled_claim
from reconciler.api.objects.claims import FINALIZER
from reconciler.cluster.http import connect
from reconciler.embedded import ApiServer, serve
from reconciler.errors import Rejected

E2E = WORKLOADS[0]

pytestmark = pytest.mark.loopback


async def labelled_objects(made: Cluster) -> int:
    return sum([len(await made.labelled(kind)) for kind in DELETED])


async def test_what_a_killed_run_left_behind_is_deleted_by_the_next_and_nothing_else():
    async with serve(ApiServer()) as url, connect(server=url) as transport:
        async with cluster(transport) as killed:
            for raw in mig.fleet(1):
                await killed.create(raw)
            await killed.create(labelled_claim(0, "1g.5gb"))
            others = await killed.client.create(killed.served["ResourceClaim"], labelled_claim(1, "1g.5gb"))
            before = await labelled_objects(killed)
            async with cluster(transport) as following:
                assert before > 3
                assert await labelled_objects(following) == 0
                await following.create(labelled_claim(0, "1g.5gb"))
        assert await labelled_objects(following) == 0
        found = await following.client.fetch(following.served["ResourceClaim"].everywhere)
        assert [item["metadata"]["uid"] for item in found["items"]] == [others["metadata"]["uid"]]


def test_more_claims_than_fit_are_refused_with_the_size_that_does():
    done = CliRunner().invoke(main, ["run", "e2e", "--set", "rounds=15"])
    assert done.exit_code == 2
    assert "146 nodes have no room for 9,441 claims" in " ".join(done.output.split())
    assert not E2E.problem({**E2E.cases[""], "rounds": 15, "nodes": 400})
    assert E2E.problem({**E2E.cases[""], "rounds": 15, "nodes": 399})


async def test_claims_are_announced_where_the_server_has_such_policies_and_only_there(monkeypatch):
    kinds: list[str] = []
    times: list[Json] = []
    async with serve(ApiServer()) as url, connect(server=url) as transport, cluster(transport) as made:
        assert await announced_namespace(made) == ""
        assert await labelled_objects(made) == 0

        async def created(resource, raw):
            kinds.append(resource.kind)
            return raw

        async def tried(raw):
            times.append(raw)
            finalizers = [FINALIZER] if len(times) > 1 else []  # a new policy takes a moment
            return {**raw, "metadata": {**raw["metadata"], "finalizers": finalizers}}

        monkeypatch.setattr(made.client, "create", created)
        monkeypatch.setattr(made, "try_out", tried)
        assert await announced_namespace(made) == SPACE
    assert kinds == ["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "Namespace"]
    assert {raw["metadata"]["namespace"] for raw in times} == {SPACE}
    assert set(kinds) < set(DELETED)


async def test_what_a_server_would_make_of_an_object_is_not_created():
    async with serve(ApiServer()) as url, connect(server=url) as transport, cluster(transport) as made:
        tried = await made.try_out(labelled_claim(0, "1g.5gb"))
        assert tried["metadata"]["name"] == "claim-0"
        found = await made.client.fetch(made.served["ResourceClaim"].everywhere)
        assert found["items"] == []
        with pytest.raises(Rejected):
            await made.try_out({**labelled_claim(0, "1g.5gb"), "spec": {"devices": {"requests": "none"}}})
