"""With `--config`, a command decides as a controller with these settings, unless an option says otherwise."""

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from reconciler.api.validation.kinds import GroupVersion, ServedKind
from reconciler.cli import main
from reconciler.cli.options import cluster_options, files_option
from reconciler.cli.rule_options import policy_options, release_and_rules_options, steps_option
from reconciler.embedded import ApiServer
from tests.tools.processes import answered
from tests.tools.short_manifests import CLASS, claim, gpus, together

SETTINGS = """\
policy: {"*": spread}
own_drivers: [gpu.example.com]
semantics: "1.36"
group_modes: {gpu.example.com: pairwise}
search_steps: 7
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.yaml").write_text(together(CLASS, gpus("a"), gpus("b"), claim("one"), claim("two")))
    (tmp_path / "settings.yaml").write_text(SETTINGS)
    return tmp_path


def nodes(*options: str) -> list[str]:
    """The nodes of the claims one and two."""
    done = CliRunner().invoke(main, ["allocate", "-f", "m.yaml", *options])
    assert done.exit_code == 0, done.output
    return [line.split()[-1] for line in done.stdout.splitlines()[1:3]]


def test_options_come_from_the_settings_and_what_is_given_wins(folder: Path):
    assert nodes() == ["a", "a"]
    assert nodes("--config", "settings.yaml") == ["a", "b"]
    assert nodes("--policy", "first-fit", "--config", "settings.yaml") == ["a", "a"]


@pytest.mark.parametrize("command", ["explain one", "whatif", "top", "capacity --pending"])
def test_each_command_that_decides_takes_them(command: str, folder: Path):
    done = CliRunner().invoke(main, [*command.split(), "-f", "m.yaml", "--config", "settings.yaml"])
    assert done.exit_code in (0, 1), done.output


def test_the_demand_of_policies_is_not_the_one_that_top_shows(folder: Path):
    (folder / "settings.yaml").write_text("demand: demand.json\n")
    done = CliRunner().invoke(main, ["top", "-f", "m.yaml", "--config", "settings.yaml"])
    assert done.exit_code == 0, done.output


def test_wrong_settings_are_named(folder: Path):
    (folder / "settings.yaml").write_text("polciy: a\n")
    done = CliRunner().invoke(main, ["allocate", "-f", "m.yaml", "--config", "settings.yaml"])
    assert done.exit_code == 2
    assert "unknown setting polciy in settings.yaml; did you mean policy?" in " ".join(done.output.split())


DEPLOYMENT = ServedKind(
    "Deployment", "deployments", "deployment", (GroupVersion("apps", "v1"),), namespaced=True
)


@click.command()
@files_option(required=False)
@cluster_options
@policy_options
@release_and_rules_options
@steps_option(5)
def asked(rules: Any, policies: Any, steps: int, **_: Any) -> None:
    click.echo(f"{rules.release} {dict(policies.names)} {steps}")


def deployed(*arguments: str, name: str = "dra-reconciler") -> dict[str, Any]:
    """As deploy/base and the chart write it, with variables in all places that they have."""
    value = {"name": "DRA_RECONCILER_POLICY", "value": "spread"}
    key = {"configMapKeyRef": {"name": "settings", "key": "gates"}}
    secret = {"secretKeyRef": {"name": "none", "key": "none"}}
    container = {
        "name": "dra-reconciler",
        "image": "i",
        "args": ["run", *arguments],
        "env": [
            value,
            {"name": "DRA_RECONCILER_FEATURE_GATES", "valueFrom": key},
            {"name": "DRA_RECONCILER_STATUS_TOKEN_FILE", "valueFrom": secret},
        ],
        "envFrom": [{"configMapRef": {"name": "settings"}}, {"configMapRef": {"name": "missing"}}],
    }
    spec = {"template": {"spec": {"containers": [{"name": "other", "image": "i"}, container]}}}
    metadata = {"name": name, "namespace": "dra-reconciler"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


async def answer(deployment: dict[str, Any] | None, *options: str, serves: bool = True) -> Result:
    api = ApiServer((DEPLOYMENT,) if serves else ())
    data = {"DRA_RECONCILER_SEMANTICS": "1.36", "DRA_RECONCILER_POLICY": "best-fit", "gates": ""}
    settings = {"name": "settings", "namespace": "dra-reconciler"}
    api.load([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": settings, "data": data}])
    if deployment is not None:
        api.load([deployment])
    return await answered(api, *options, command=asked)


@pytest.mark.loopback
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "1.36 {'*': 'spread'} 7"),
        (["--steps", "3", "--policy", "first-fit"], "1.36 {'*': 'first-fit'} 3"),
    ],
)
async def test_a_command_on_a_cluster_decides_as_its_controller(options: list[str], said: str):
    done = await answer(deployed("--steps", "7"), *options)
    assert (done.exit_code, done.stdout, done.stderr) == (0, f"{said}\n", "")


@pytest.mark.loopback
@pytest.mark.parametrize(
    ("deployment", "said"),
    [
        (None, "there is no Deployment dra-reconciler/dra-reconciler of it"),
        (deployed(name="gpus"), "there is no Deployment dra-reconciler/dra-reconciler of it"),
        (deployed("--steps", "0"), "setting --steps: Input should be greater than or equal to 1"),
        (deployed("--no-such"), "No such option '--no-such'"),
    ],
)
async def test_defaults_apply_with_a_note_if_it_cannot_be_read(deployment: dict[str, Any] | None, said: str):
    done = await answer(deployment)
    assert (done.exit_code, done.stdout) == (0, "1.37 {} 5\n"), done.output
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.loopback
async def test_where_no_controller_can_run_nothing_is_said(tmp_path: Path):
    done = await answer(None, serves=False)
    assert (done.stdout, done.stderr) == ("1.37 {} 5\n", "")


@pytest.mark.loopback
async def test_another_name_a_file_and_manifests_come_first(folder: Path):
    done = await answer(deployed(name="gpus"), "--deployment", "dra-reconciler/gpus")
    assert done.stdout == "1.36 {'*': 'spread'} 5\n"
    done = await answer(deployed(), "--config", "settings.yaml")
    assert done.stdout == "1.36 {'*': 'spread'} 7\n"
    done = CliRunner().invoke(asked, ["-f", "m.yaml"])
    assert (done.stdout, done.stderr) == ("1.37 {} 5\n", "")
