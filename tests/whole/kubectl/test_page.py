"""docs/embedded-server.md says which commands of kubectl work. Each of them is typed here."""

import json
import re
import shlex
from typing import NamedTuple

import pytest

from tests.tools.checkout import DOCS
from tests.tools.examples import in_soak
from tests.tools.kubectls import MISSING, kubectls, session

PAGE = (DOCS / "embedded-server.md").read_text()
ROW = re.compile(r"^- `(?P<command>[^`]+)`(?:: (?P<remark>.*))?$", re.MULTILINE)
KNOWN = sorted(kubectls())

pytestmark = [pytest.mark.loopback, pytest.mark.skipif(not KNOWN, reason=MISSING)]


class Row(NamedTuple):
    """A command, and its remark or answer."""

    command: str
    remark: str


def rows():
    """Commands that work, and commands that are not served."""
    lists = PAGE.partition("## kubectl\n")[2].partition("\n## ")[0].split("These are not served")
    works, refused = ([Row(*row) for row in ROW.findall(one)] for one in lists)
    assert len(works) > 45
    assert len(refused) > 15
    return works, refused


def objects():
    return PAGE.partition("```yaml\n")[2].partition("```")[0]


OLDEST = [pytest.param(minor, marks=in_soak) for minor in KNOWN[:-1][:1]]


@pytest.mark.parametrize("minor", [*OLDEST, *KNOWN[-1:]] or [0])
async def test_every_command_of_the_page_does_what_it_says(minor, tmp_path):
    works, refused = rows()
    (tmp_path / "objects.yaml").write_text(objects())
    async with session(kubectls()[minor], tmp_path) as kubectl:
        for row in works:
            await kubectl.run(*shlex.split(row.command))
        await kubectl.run("apply", "-f", "objects.yaml")
        await kubectl.run("wait", "--for=jsonpath={.status.phase}=Running", "pod/web", "--timeout=5m")
        for row in refused:
            code, out, err = await kubectl.end(*shlex.split(row.command))
            assert code != 0, f"kubectl {row.command}: {out}"
            assert row.remark.strip("`") in err, f"kubectl {row.command}: {err}"


@in_soak
@pytest.mark.parametrize("minor", KNOWN[1:-1] or [0])
async def test_what_depends_on_the_version_of_kubectl(minor, tmp_path):
    """How it validates, explains, and asks about the sender."""
    if minor not in kubectls():
        pytest.skip("no kubectl between the oldest and the newest is installed")
    async with session(kubectls()[minor], tmp_path) as kubectl:
        assert "pod/web created" in await kubectl.run("apply", "-f", "-", stdin=objects())
        assert "containers\t<[]Container>" in await kubectl.run("explain", "pod.spec")
        assert await kubectl.run("auth", "can-i", "create", "pods") == "yes\n"
        assert "system:unsecured" in await kubectl.run("auth", "whoami")
        await kubectl.run("create", "service", "clusterip", "s", "--tcp=80")
        assert "service/s" in await kubectl.run("get", "all", "-o", "name")


@pytest.mark.parametrize("minor", dict.fromkeys([*KNOWN[:1], *KNOWN[-1:]]) or [0])
async def test_a_typing_error_in_a_list_is_found(minor, tmp_path):
    """Lists are validated by the schemas of /openapi/v2; newer and unknown kinds' fields pass."""
    wrong = objects().replace("nodeName:", "nodename:")
    async with session(kubectls()[minor], tmp_path) as kubectl:
        code, _, err = await kubectl.end("apply", "-f", "-", stdin=wrong)
        assert (code, 'unknown field "nodename"' in err) == (1, True), err
        groups = "consumesCounters: [{counterSet: s, compatibilityGroups: [a], counters: {c: {value: 1}}}]"
        newer = objects().replace("{name: gpu-0}", f"{{name: gpu-0, {groups}}}")
        await kubectl.run("apply", "-f", "-", stdin=newer)
        metadata = {"name": "n"}
        device = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device", "metadata": metadata}
        custom = {"apiVersion": "v1", "kind": "List", "items": [{**device, "spec": {"anything": [1]}}]}
        await kubectl.run("apply", "-f", "-", stdin=json.dumps(custom))


@pytest.mark.parametrize("minor", dict.fromkeys([*KNOWN[:1], *KNOWN[-1:]]) or [0])
async def test_apply_merges_lists_by_their_keys(minor, tmp_path):
    """By the keys of our schemas: what others added to a list stays, what the file drops goes."""
    first = """
    apiVersion: v1
    kind: Service
    metadata: {name: s, finalizers: [a.example/mine, a.example/too]}
    spec: {ports: [{name: a, port: 1}, {name: b, port: 2}]}
    """
    async with session(kubectls()[minor], tmp_path) as kubectl:
        await kubectl.run("apply", "-f", "-", stdin=first)
        added = (
            '{"metadata": {"finalizers": ["b.example/other"]}, "spec": {"ports": [{"name": "c", "port": 3}]}}'
        )
        await kubectl.run("patch", "service", "s", "-p", added)
        second = first.replace("{name: a, port: 1}, ", "").replace(", a.example/too", "")
        await kubectl.run("apply", "-f", "-", stdin=second)
        ports = await kubectl.run("get", "service", "s", "-o", "jsonpath={.spec.ports[*].port}")
        assert sorted(ports.split()) == ["2", "3"]
        finalizers = await kubectl.run("get", "service", "s", "-o", "jsonpath={.metadata.finalizers[*]}")
        assert sorted(finalizers.split()) == ["a.example/mine", "b.example/other"]


@pytest.mark.parametrize("minor", KNOWN[-1:] or [0])
async def test_explain_has_the_descriptions_of_kubernetes(minor, tmp_path):
    async with session(kubectls()[minor], tmp_path) as kubectl:
        shown = await kubectl.run("explain", "resourceclaim.spec.devices.requests.exactly.adminAccess")
        assert "claim for administrative access to the device(s)" in " ".join(shown.split())
        assert "Koordinator" in await kubectl.run("explain", "devices")
        old = await kubectl.run("explain", "pod.spec", "--output=plaintext-openapiv2")
        assert "containers\t<[]Object> -required-" in old
