"""Fields and kinds that no release has are named, and with `--strict` refuse their object."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from reconciler.cli import main
from tests.tools.short_manifests import CLASS, claim, gpus, together

MISSPELT = claim("c").replace("count: 1", "cuont: 2")
UNKNOWN_KIND = claim("d").replace("kind: ResourceClaim", "kind: ResourceCliam")
UNKNOWN_GANG = "{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGruop, metadata: {name: d}}\n"
USED_BY_NOBODY = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}\n"


def run(tmp_path: Path, text: str, *command: str) -> Result:
    path = tmp_path / "f.yaml"
    path.write_text(text)
    return CliRunner().invoke(main, [*command, "-f", str(path)])


@pytest.mark.parametrize("command", ["allocate", "top", "modes", "convert"])
def test_an_unknown_field_is_named_with_the_nearest_one(tmp_path: Path, command: str):
    text = together(CLASS, gpus("n1", 2), MISSPELT)
    said = run(tmp_path, text, command)
    assert "ResourceClaim default/c: spec.devices.requests[0].exactly.cuont: no release has" in said.stderr
    assert "did you mean count?" in said.stderr
    strict = run(tmp_path, text, command, "--strict")
    assert (strict.exit_code, "refused: " in strict.stderr) == (1, True)


def test_the_object_alone_is_refused(tmp_path: Path):
    text = together(CLASS, gpus("n1", 2), MISSPELT, claim("good"))
    assert "default/c" in run(tmp_path, text, "allocate").stdout
    strict = run(tmp_path, text, "allocate", "--strict").stdout
    assert ("default/c" in strict, "default/good" in strict) == (False, True)


def test_an_unknown_kind_of_the_group_is_named(tmp_path: Path):
    text = together(CLASS, gpus("n1", 1), UNKNOWN_KIND, USED_BY_NOBODY)
    said = run(tmp_path, text, "allocate")
    assert said.stderr.count("\n") == 1, "a kind that is only not used is passed over in silence"
    assert "ResourceCliam d: kind: no release has this kind; did you mean ResourceClaim?" in said.stderr
    assert (said.exit_code, run(tmp_path, text, "allocate", "--strict").exit_code) == (0, 1)
    alone = run(tmp_path, UNKNOWN_KIND, "allocate")
    assert (alone.exit_code, "did you mean ResourceClaim?" in alone.stderr) == (2, True)


def test_an_unknown_kind_of_gangs_is_named(tmp_path: Path):
    text = together(CLASS, gpus("n1", 1), UNKNOWN_GANG)
    said = run(tmp_path, text, "allocate")
    assert "PodGruop d: kind: no release has this kind; did you mean PodGroup?" in said.stderr
