"""`dra-reconciler doctor`: output, exit codes and documentation."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from reconciler.analysis.doctor.checks import every_rule
from reconciler.api.validation.kinds import GroupVersion, ServedKind
from reconciler.cli import main
from reconciler.embedded import ApiServer, Request, Response, serve
from reconciler.embedded.routing import Stream
from tests.tools.checkout import DOCS
from tests.tools.doctor_koordinator_cases import DOMAIN, partitioned
from tests.tools.doctor_manifests import GPU, ONE, Object, claim, device_class, part, yaml_of
from tests.tools.doctor_quiet_cases import SOUND
from tests.tools.http_servers import write_contexts
from tests.tools.processes import answered

PAGE = DOCS / "doctor.md"
WARNED = yaml_of(GPU, claim("c", wants="gppu"))
NOTED = yaml_of({**GPU, "apiVersion": "resource.k8s.io/v1beta2"})
WRONG = yaml_of(part("s", {"name": "a"}, count=2))


def doctor(tmp_path: Path, text: str, *options: str) -> Result:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    return CliRunner().invoke(main, ["doctor", "-f", str(path), *options])


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [
        pytest.param(SOUND, [], 0, id="nothing"),
        pytest.param(NOTED, ["--strict"], 0, id="notes"),
        pytest.param(WARNED, [], 0, id="warnings"),
        pytest.param(WARNED, ["--strict"], 1, id="warnings, and strict"),
        pytest.param(WRONG, [], 1, id="errors"),
        pytest.param(WRONG + WARNED, ["--strict"], 1, id="errors and warnings"),
        pytest.param(SOUND, ["--server", "http://127.0.0.1:1"], 2, id="files and a server"),
        pytest.param(SOUND, ["--cluster"], 2, id="files and a cluster"),
    ],
)
def test_the_worst_finding_decides_the_exit_code(tmp_path: Path, text: str, options: list[str], code: int):
    assert doctor(tmp_path, text, *options).exit_code == code


def test_a_block_names_problem_location_and_remedy(tmp_path: Path):
    result = doctor(tmp_path, WRONG)
    head, problem, fix, field, location, empty, summary = result.stdout.splitlines()
    assert head == "error pool-incomplete: ResourceSlice s"
    assert problem == "  problem:  pool gpu.example.com/p has 1 of 2 slices of generation 1"
    assert fix.startswith("  fix:      Publish resourceSliceCount slices")
    assert field == "  field:    spec.pool.resourceSliceCount"
    assert location.endswith("a.yaml:2")
    assert (empty, summary) == ("", "1 error, 0 warnings, 0 info")


def test_an_object_that_is_refused_for_a_new_field_shows_its_older_mistakes_too(tmp_path: Path):
    wrong = part("s", {"name": "D0"})
    wrong["spec"]["skipNodeOperations"] = ["Prepare"]
    found = json.loads(doctor(tmp_path, yaml_of(GPU, wrong), "-o", "json").stdout)["findings"]
    assert {(one["check"], one["field"]) for one in found if one["severity"] == "error"} == {
        ("unreadable", "spec.skipNodeOperations[0]"),
        ("api-rules", "spec.devices[0].name"),
    }


def test_wide_has_a_line_for_each_finding(tmp_path: Path):
    _, line, _ = doctor(tmp_path, WRONG, "-o", "wide").stdout.splitlines()
    for part_of_it in (
        "error",
        "ResourceSlice s",
        "spec.pool.resourceSliceCount",
        "1 of 2 slices",
        "a.yaml:2",
    ):
        assert part_of_it in line


def test_name_has_each_object_once(tmp_path: Path):
    result = doctor(tmp_path, WRONG + WARNED, "-o", "name")
    found = result.stdout.splitlines()
    assert found == ["resourceslice.resource.k8s.io/s", "resourceclaim.resource.k8s.io/c"]
    assert result.exit_code == 1


def test_json_has_every_finding(tmp_path: Path):
    found = json.loads(doctor(tmp_path, WRONG + WARNED, "-o", "json").stdout)
    assert found["summary"] == {"error": 1, "warning": 1, "info": 0}
    assert [one["check"] for one in found["findings"]] == ["pool-incomplete", "missing-class"]
    assert found["findings"][0]["line"] == 2


def test_an_object_that_cannot_be_read_has_a_finding_for_each_mistake(tmp_path: Path):
    wrong = claim("c")
    wrong["spec"]["devices"]["requests"][0]["exactly"] |= {"count": "x", "deviceClassName": 7}
    derived = claim("d")
    attributes = [{"name": name, "expression": "1"} for name in ("bare", "d/unused")]
    derived["spec"]["devices"]["requests"][0]["exactly"]["derivedAttributes"] = attributes
    found = json.loads(doctor(tmp_path, yaml_of(GPU, wrong, derived), "-o", "json").stdout)["findings"]
    request = "spec.devices.requests[0].exactly"
    fields = {one["field"] for one in found if one["check"] == "unreadable"}
    names = {f"{request}.derivedAttributes[{at}].name" for at in (0, 1)}
    assert fields == {f"{request}.count", f"{request}.deviceClassName"} | names


def test_sarif_has_a_rule_and_a_place_for_every_result(tmp_path: Path):
    log: dict[str, Any] = json.loads(doctor(tmp_path, WRONG + WARNED, "-o", "sarif").stdout)
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[one["ruleIndex"]]["id"] == one["ruleId"] for one in run["results"])
    assert [one["level"] for one in run["results"]] == ["error", "warning"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == (tmp_path / "a.yaml").as_uri()
    assert place["region"]["startLine"] == 2


def test_every_rule_is_documented():
    page = PAGE.read_text()
    assert [rule.id for rule in every_rule() if f"- `{rule.id}` ({rule.severity.value}): " not in page] == []
    assert [rule.id for rule in every_rule() if rule.summary not in page] == []


@pytest.mark.loopback
async def test_templates_of_a_server_are_checked():
    server = ApiServer()
    metadata = {"name": "t", "namespace": "default"}
    spec = {"spec": claim("c", wants="gppu")["spec"]}
    template = {**GPU, "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec}
    server.load([ONE, GPU, template])
    found = await _asked(server)
    told = [(one["check"], one["object"]) for one in found]
    assert told == [("missing-class", "ResourceClaimTemplate default/t")]


@pytest.mark.loopback
@pytest.mark.parametrize("group", ["", "resource.k8s.io"], ids=["beside claims", "without claims"])
async def test_koordinators_devices_of_a_server_are_checked(group: str):
    """Also of an old one, which serves no claims."""
    server = ApiServer(serves=lambda _, at: not group or at.group != group)
    server.load([partitioned({})])
    assert [one["check"] for one in await _asked(server)] == ["partition-table"]


@pytest.mark.loopback
async def test_a_server_may_lack_devices_of_koordinator_or_forbid_them_but_not_claims_too():
    def served(*absent: str) -> ApiServer:
        return ApiServer(serves=lambda _, at: at.group not in absent)

    assert await _asked(served(DOMAIN)) == []
    told = await _told(served(DOMAIN, "resource.k8s.io"))
    assert (told.exit_code, "does not serve ResourceSlice" in told.stderr) == (3, True)
    told = await _told(Forbidding())
    assert told.exit_code == 0
    assert f"note: devices.{DOMAIN} are not considered: " in told.stderr


class Forbidding(ApiServer):
    """Lets nobody list Koordinator's Devices."""

    def handle(self, request: Request) -> Response | Stream:
        if request.path.endswith("/v1alpha1/devices"):
            return Response(403, b'{"kind": "Status", "message": "forbidden"}')
        return super().handle(request)


@pytest.mark.loopback
async def test_the_default_cluster_is_that_of_the_kubeconfig(tmp_path: Path):
    server = ApiServer()
    server.load([ONE, device_class("false")])
    async with serve(server) as url:
        path = write_contexts(tmp_path / "config", here=url)
        command, environment = ["doctor", "--cluster", "-o", "json"], {"KUBECONFIG": path}
        asked = await asyncio.to_thread(CliRunner().invoke, main, command, env=environment)
    found = [(one["check"], one["file"]) for one in json.loads(asked.stdout)["findings"]]
    assert found == [("matches-nothing", "DeviceClass/gpu")]


async def _asked(server: ApiServer) -> list[Object]:
    return list(json.loads((await _told(server)).stdout)["findings"])


async def _told(server: ApiServer) -> Result:
    return await answered(server, "doctor", "-o", "json")


def test_two_objects_of_one_name_are_reported_in_the_words_of_allocate(tmp_path: Path):
    text = yaml_of(ONE, part("s", pool="q"), ONE)
    found = json.loads(doctor(tmp_path, text, "-o", "json").stdout)["findings"]
    path = tmp_path / "a.yaml"
    allocated = CliRunner().invoke(main, ["allocate", "-f", str(path)])
    said = [
        f"refused: {path}:{start}: {one['object']}: {one['field']}: {one['what']}"
        for start, one in zip(
            (4, 6), [one for one in found if one["check"] == "duplicate-object"], strict=True
        )
    ]
    assert said == allocated.stderr.splitlines()


@pytest.mark.loopback
async def test_kinds_of_a_server_that_are_newer_than_the_program_are_named():
    served = (GroupVersion("resource.k8s.io", "v2alpha1"),)
    server = ApiServer([ServedKind("DeviceLease", "deviceleases", "devicelease", served)])
    (found,) = await _asked(server)
    assert (found["check"], found["object"]) == ("unknown-kind", "DeviceLease (without a name)")
    assert found["what"] == "ignored: DeviceLease of resource.k8s.io/v2alpha1, which could change the answer"
