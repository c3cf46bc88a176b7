"""Which files `fit` reads as what."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from reconciler.cli import main
from tests.tools.small_fleet import device_class, devices, node, template

SPEC = {
    "containers": [{"name": "main", "image": "example.com/main"}],
    "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
}
ASKED = [
    {
        "apiVersion": "dra-reconciler.io/v1alpha1",
        "kind": "FitRequest",
        "podSets": [{"name": "s", "count": 3, "template": {"spec": SPEC}}],
    },
    template("t"),
]
CLASSES, FLEET = [device_class()], [node("a"), devices("a", "d0", "d1")]


@pytest.mark.parametrize(
    ("first", "others"),
    [(ASKED + CLASSES + FLEET, []), (ASKED, [*CLASSES, *FLEET]), (ASKED + CLASSES, FLEET)],
    ids=["all in one", "the question apart", "classes beside the question"],
)
@pytest.mark.parametrize("piped", [False, True])
def test_the_first_file_counts_once_and_may_be_standard_input(
    first: list[object], others: list[object], piped: bool, tmp_path: Path
):
    text = yaml.safe_dump_all(first)
    (tmp_path / "first.yaml").write_text(text)
    (tmp_path / "others.yaml").write_text(yaml.safe_dump_all(others))
    files = ["-f", "-" if piped else str(tmp_path / "first.yaml")]
    files += ["-f", str(tmp_path / "others.yaml")] if others else []
    result = CliRunner().invoke(main, ["fit", *files, "-o", "json"], input=text if piped else None)
    assert result.stderr == ""
    assert json.loads(result.stdout)["podSets"][0]["fits"] == 2


def test_what_is_wrong_in_the_first_file_is_said_once(tmp_path: Path):
    broken = {**devices("b", "d0"), "spec": {}}
    asked = tmp_path / "asked.yaml"
    asked.write_text(yaml.safe_dump_all([*ASKED, broken]))
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(yaml.safe_dump_all([*CLASSES, *FLEET]))
    result = CliRunner().invoke(main, ["fit", "-f", str(asked), "-f", str(fleet)])
    assert result.exit_code == 2
    assert result.stderr.count("refused: ") == 1
