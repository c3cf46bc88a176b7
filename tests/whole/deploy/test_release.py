"""Versions, the workflow of a release, the package's metadata and the manifest for krew."""

import json
import re
import subprocess
import tarfile
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import Any

import jsonschema
import pytest
import semver
import yaml
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

from deploy.krew.manifest import manifest
from deploy.release import chart, notes
from deploy.release.version import problems, version
from tests.tools import krew_rules
from tests.tools.checkout import ROOT

WORKFLOW = (ROOT / ".github" / "workflows" / "release.yaml").read_text()
REPOSITORY = "https://git.example.org/dra-reconciler"


@cache
def jobs() -> dict[str, Any]:
    found = yaml.safe_load(WORKFLOW)["jobs"]
    assert isinstance(found, dict)
    return found


def steps() -> list[tuple[str, dict[str, Any]]]:
    return [(name, step) for name, job in jobs().items() for step in job["steps"]]


def changed(document: dict[str, Any], path: tuple[str | int, ...], value: object) -> dict[str, Any]:
    """The document with another value at a path."""
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return document


def test_every_place_says_the_same_version_and_another_tag_is_refused():
    assert semver.Version.is_valid(version())
    assert list(problems(f"v{version()}")) == []
    wrong = list(problems("v9.9.9"))
    assert {line.split()[0] for line in wrong} == {
        "the", "deploy/helm/dra-reconciler/Chart.yaml", "deploy/base/deployment.yaml",
        "deploy/sweep/play/job.yaml",
        "CHANGELOG.md", "pyproject.toml", "deploy/README.md", "docs/install.md", "perf/README.md",
    }  # fmt: skip


def test_the_notes_are_the_section_of_the_changelog():
    text = "# C\n\n## Unreleased\n\n## 1.1.0 - 2026-01-02\n\n- a\n\n## 1.0.0 - 2026-01-01\n- b\n"
    assert notes.notes(text, "1.1.0") == "- a\n"
    assert notes.notes(text, "1.0.0") == "- b\n"
    with pytest.raises(LookupError, match=r"2\.0\.0"):
        notes.notes(text, "2.0.0")
    headings = re.findall(r"^## (.+)$", notes.CHANGELOG.read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", heading) for heading in headings[1:])


def test_a_release_of_the_chart_names_its_image_by_digest():
    digest = f"sha256:{'b' * 64}"
    wanted = {"repository": "r.example.com/i", "digest": digest, "runbooks": f"{REPOSITORY}/runbooks.md"}
    made = yaml.safe_load(chart.released(chart.VALUES.read_text(), **wanted))
    assert (made["image"]["repository"], made["image"]["digest"]) == ("r.example.com/i", digest)
    assert made["observability"]["runbooks"] == wanted["runbooks"]
    with pytest.raises(LookupError, match="0 times"):
        chart.released("a: b\n", digest=digest)


def test_actions_are_pinned_to_a_commit_with_its_version_beside():
    used = re.findall(r"uses: (.+)$", WORKFLOW, re.MULTILINE)
    assert used
    for one in used:
        assert re.fullmatch(r"[a-z-]+/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one), one
    by_name: dict[str, set[str]] = {}
    for one in used:
        by_name.setdefault(one.partition("@")[0], set()).add(one)
    assert all(len(pins) == 1 for pins in by_name.values())


def test_uv_is_pinned_and_publishes_to_the_index_that_is_named_or_nowhere():
    assert re.fullmatch(r"uv==\d+\.\d+\.\d+", yaml.safe_load(WORKFLOW)["env"]["UV"])
    assert {*re.findall(r"pipx install (.+)", WORKFLOW)} == {'"$UV"'}
    (step,) = [step for _, step in steps() if "uv publish" in step.get("run", "")]
    assert step["if"] == "vars.INDEX != ''"
    assert step["env"] == {"INDEX": "${{ vars.INDEX }}"}
    assert '--publish-url "$INDEX"' in step["run"]


def test_rights_are_given_to_each_job_alone_and_signing_has_its_token():
    assert yaml.safe_load(WORKFLOW)["permissions"] == {}
    for name, job in jobs().items():
        granted = job["permissions"]
        text = json.dumps(job)
        signs = "cosign sign" in text or "attest-build-provenance" in text or "trusted-publishing" in text
        assert (granted.get("id-token") == "write") is signs, name
        assert granted["contents"] == ("write" if "gh release" in text else "read")
        assert job["timeout-minutes"] <= 120
    for _, step in steps():
        if str(step.get("uses", "")).startswith("actions/checkout"):
            assert step["with"] == {"persist-credentials": False}
        assert "${{ secrets" not in step.get("run", "")
        assert "github.ref_name" not in step.get("run", "")  # a shell would run what a tag is named


def test_everything_that_is_published_is_made_signed_and_attested():
    text = {name: json.dumps(job) for name, job in jobs().items()}
    assert jobs()["publish"]["needs"] == ["packages", "image", "chart", "plugin"]
    for made in ("hatchling build", "sbom.cdx.json", "attest-build-provenance", "deploy.release.version"):
        assert made in text["packages"]
    for made in ("--provenance mode=max", "--sbom true", "cosign sign --yes", "linux/amd64,linux/arm64"):
        assert made in text["image"]
    for made in ("helm package", "helm push", "cosign sign --yes", "deploy.release.chart"):
        assert made in text["chart"]
    assert "attest-build-provenance" in text["plugin"]
    assert "cosign sign-blob" in text["publish"]


def test_what_the_steps_name_exists():
    for name, step in steps():
        for module in re.findall(r"-m (deploy[.\w]+)", step.get("run", "")):
            assert find_spec(module), (name, module)
        for path in re.findall(r"(?<![\w./])(?:deploy|\.ci)/[\w./-]+", step.get("run", "")):
            assert (ROOT / path).exists(), (name, path)


@cache
def schema_of_workflows() -> dict[str, Any]:
    """That of SchemaStore, which the package check-jsonschema carries."""
    text = files("check_jsonschema").joinpath("builtin_schemas/vendor/github-workflows.json").read_text()
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def workflow() -> dict[str, Any]:
    found = yaml.safe_load(WORKFLOW)
    found["on"] = found.pop(True)  # YAML 1.1 reads `on` as true; GitHub does not
    return found


def test_the_workflow_fits_the_published_schema():
    jsonschema.validate(workflow(), schema_of_workflows())


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("jobs", "chart", "needs"), 1),
        (("jobs", "image", "permissions", "contents"), "all"),
        (("jobs", "image", "steps", 0, "use"), "actions/checkout"),
        (("jobs", "plugin", "strategy", "fail_fast"), True),
        (("on", "pushes"), {}),
    ],
    ids=lambda found: ".".join(map(str, found)) if isinstance(found, tuple) else "",
)
def test_the_published_schema_refuses_what_is_wrong(path: tuple[str | int, ...], value: object):
    """Otherwise the test before shows nothing."""
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(changed(workflow(), path, value), schema_of_workflows())


def test_the_readme_of_the_package_has_no_relative_links():
    core = ProjectMetadata(str(ROOT), PluginManager()).core
    assert core.urls["Repository"] == REPOSITORY
    assert core.authors
    links = re.findall(r"\]\(([^)\s]+)\)", core.readme)
    assert links
    for link in links:
        assert link.startswith("https://"), link
    at = f"{REPOSITORY}/blob/v{version()}/"
    paths = {link.removeprefix(at).partition("#")[0] for link in links if link.startswith(at)}
    assert paths
    assert all((ROOT / path).exists() for path in paths)
    assert f"]({REPOSITORY}/raw/v{version()}/docs/images/status-page.png)" in core.readme


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Made by archive.sh, with a Python that installs nothing: packages come from a registry."""
    folder = tmp_path_factory.mktemp("archives")
    python = folder / "python" / "bin" / "python3"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\nwhile [ "$1" != --target ]; do shift; done\nmkdir -p "$2"\n')
    python.chmod(0o755)
    made = [
        folder / f"kubectl-dra_reconciler_{platform}.tar.gz" for platform in ("linux_amd64", "darwin_arm64")
    ]
    for path in made:
        subprocess.run([ROOT / "deploy/krew/archive.sh", python, "a.whl", path], check=True)
    return made


def test_one_interpreter_is_packed_although_uv_links_its_minor_version(tmp_path: Path):
    (pattern,) = re.findall(r"archive\.sh (\S+) dist/\*\.whl", WORKFLOW)
    installed = tmp_path / "interpreters" / "cpython-3.13.5-linux-x86_64-gnu"
    (installed / "bin").mkdir(parents=True)
    (installed / "bin" / "python3").touch()
    (installed.parent / "cpython-3.13-linux-x86_64-gnu").symlink_to(installed.name)
    assert [*tmp_path.glob(pattern)] == [installed / "bin" / "python3"]


def test_another_number_of_arguments_writes_no_archive(tmp_path: Path):
    """The name of the archive is the third one: with one more before it, that would be the wheel."""
    wheel = tmp_path / "a.whl"
    wheel.write_text("wheel")
    words = ("python3", "python3", str(wheel), str(tmp_path / "a.tar.gz"))
    done = subprocess.run(
        [ROOT / "deploy/krew/archive.sh", *words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "usage: archive.sh PYTHON WHEEL ARCHIVE" in done.stderr) == (2, True)
    assert [*tmp_path.iterdir()] == [wheel]
    assert wheel.read_text() == "wheel"


def krew_manifest(archives: list[Path]) -> dict[str, Any]:
    found = yaml.safe_load(manifest(REPOSITORY, archives))
    assert isinstance(found, dict)
    return found


def test_the_manifest_for_krew_is_one_that_krew_accepts(archives: list[Path]):
    (published,) = re.findall(r"deploy\.krew\.manifest .+ > dist/(\S+)", WORKFLOW)
    made = krew_manifest([*archives, Path("sbom.cdx.json")])
    assert list(krew_rules.problems(published, made)) == []
    spec = made["spec"]
    assert spec["version"] == f"v{version()}"
    # Advice of krew's index: the list shows 50 characters, and kubectl goes without saying.
    assert len(spec["shortDescription"]) <= 50
    assert not spec["shortDescription"].endswith(".")
    assert "kubectl" not in spec["shortDescription"]
    assert max(map(len, spec["description"].splitlines())) <= 80
    assert [one["selector"]["matchLabels"] for one in spec["platforms"]] == [
        {"os": "darwin", "arch": "arm64"}, {"os": "linux", "arch": "amd64"},
    ]  # fmt: skip
    for one, path in zip(spec["platforms"], sorted(archives), strict=True):
        assert one["uri"] == f"{REPOSITORY}/releases/download/v{version()}/{path.name}"
        assert one["sha256"] == sha256(path.read_bytes()).hexdigest()
    with pytest.raises(LookupError):
        manifest(REPOSITORY, [])


def test_each_archive_has_the_command_and_the_license(archives: list[Path]):
    for path in archives:
        with tarfile.open(path) as opened:
            names = opened.getnames()
            assert any(PurePath(name).name.lower() in krew_rules.LICENSES for name in names)
            for platform in krew_manifest(archives)["spec"]["platforms"]:
                assert opened.getmember(platform["bin"]).mode & 0o111
        assert {"python/bin/python3", "packages"} <= set(names)


def test_every_platform_that_is_built_is_one_of_krew():
    built = {job["platform"] for job in jobs()["plugin"]["strategy"]["matrix"]["include"]}
    assert built == {"linux_amd64", "linux_arm64", "darwin_arm64"}
    assert {tuple(one.split("_")) for one in built} <= krew_rules.PLATFORMS


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("kind",), "Plugins", "not a Plugin"),
        (("metadata", "name"), "dra reconciler", "not allowed"),
        (("metadata", "name"), "other", "not other.yaml"),
        (("spec", "version"), "1.0.0", "with v before it"),
        (("spec", "shortDescription"), "a\nb", "one line"),
        (("spec", "home"), "x", "spec has no field home"),
        (("spec", "platforms"), [], "no platform"),
        (("spec", "platforms", 0, "sha256"), "A" * 64, "64 hexadecimal"),
        (("spec", "platforms", 0, "bin"), "", "bin is required"),
        (("spec", "platforms", 0, "files"), [], "files is left out"),
        (("spec", "platforms", 0, "selector"), {}, "selector.matchLabels"),
        (("spec", "platforms", 0, "selector", "matchLabels"), {"os": "linux"}, "several platforms serve"),
        (("spec", "platforms", 0, "selector", "matchLabels"), {"os": "beos"}, "no platform of krew"),
    ],
)
def test_krew_refuses(archives: list[Path], path: tuple[str | int, ...], value: object, said: str):
    wrong = changed(krew_manifest(archives), path, value)
    assert any(said in one for one in krew_rules.problems("dra-reconciler.yaml", wrong))
