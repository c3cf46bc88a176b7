"""Versions, the workflow of a release, the package's metadata and the manifest for krew."""

import json
import re
import tarfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
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


def test_every_place_says_the_same_version_and_another_tag_is_refused():
    assert semver.Version.is_valid(version())
    assert list(problems(f"v{version()}")) == []
    wrong = list(problems("v9.9.9"))
    assert {line.split()[0] for line in wrong} == {
        "the", "deploy/helm/dra-reconciler/Chart.yaml", "deploy/base/deployment.yaml",
        "deploy/sweep/play/job.yaml",
        "CHANGELOG.md", "pyproject.toml",
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


def test_the_workflow_fits_the_published_schema():
    """That of SchemaStore, which the package check-jsonschema carries."""
    found = find_spec("check_jsonschema")
    if found is None or found.origin is None:
        pytest.skip("check-jsonschema, which carries the schema of workflows, is not installed")
    folder = Path(found.origin).parent / "builtin_schemas" / "vendor"
    schema = json.loads((folder / "github-workflows.json").read_text())
    workflow = yaml.safe_load(WORKFLOW)
    workflow["on"] = workflow.pop(True)  # YAML 1.1 reads `on` as true; GitHub does not
    jsonschema.validate(workflow, schema)


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


def archive(folder: Path, platform: str) -> Path:
    path = folder / f"kubectl-dra_reconciler_{platform}.tar.gz"
    with tarfile.open(path, "w:gz") as made:
        made.add(ROOT / "LICENSE", "LICENSE")
    return path


def test_the_manifest_for_krew_is_one_that_krew_accepts(tmp_path: Path):
    """By the rules of its validate-krew-manifest: names, versions, selectors, addresses and checksums."""
    archives = [archive(tmp_path, platform) for platform in ("linux_amd64", "darwin_arm64")]
    made = yaml.safe_load(manifest(REPOSITORY, [*archives, tmp_path / "sbom.cdx.json"]))
    assert (made["apiVersion"], made["kind"]) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin")
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", made["metadata"]["name"])
    spec = made["spec"]
    assert spec.keys() == {"version", "homepage", "shortDescription", "description", "platforms"}
    assert spec["version"] == f"v{version()}"
    assert len(spec["shortDescription"]) <= 50
    assert not spec["shortDescription"].endswith(".")
    assert "kubectl" not in spec["shortDescription"]
    assert max(map(len, spec["description"].splitlines())) <= 80
    assert [one["selector"]["matchLabels"] for one in spec["platforms"]] == [
        {"os": "darwin", "arch": "arm64"}, {"os": "linux", "arch": "amd64"},
    ]  # fmt: skip
    for one in spec["platforms"]:
        assert one.keys() == {"selector", "uri", "sha256", "bin"}
        assert one["uri"].startswith(f"{REPOSITORY}/releases/download/v{version()}/kubectl-dra_reconciler_")
        assert re.fullmatch(r"[0-9a-f]{64}", one["sha256"])
    names = {f"{job['platform']}" for job in jobs()["plugin"]["strategy"]["matrix"]["include"]}
    assert names == {"linux_amd64", "linux_arm64", "darwin_arm64"}
    with pytest.raises(LookupError):
        manifest(REPOSITORY, [])
