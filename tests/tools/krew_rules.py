"""What krew and the check of its index refuse in the manifest of a plugin.

krew publishes no schema: these are the rules of its `validate-krew-manifest`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

API_VERSION = "krew.googlecontainertools.github.com/v1alpha2"
PLATFORMS = frozenset(
    (system, arch)
    for system, archs in {
        "windows": ("386", "amd64", "arm64"),
        "linux": ("386", "amd64", "arm", "arm64", "ppc64le"),
        "darwin": ("386", "amd64", "arm64"),
    }.items()
    for arch in archs
)
"""Systems and architectures that krew installs on"""
LICENSES = frozenset(
    {
        "license",
        "license.txt",
        "license.md",
        "licenses",
        "licenses.txt",
        "licenses.md",
        "copying",
        "copying.txt",
    }
)
"""File names, in lower case: one of them has to be in each archive"""
RESERVED = frozenset(
    {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))}
)
"""Names that Windows forbids for files"""
_FIELDS = {
    "": {"apiVersion", "kind", "metadata", "spec"},
    "spec": {"version", "homepage", "shortDescription", "description", "caveats", "platforms"},
    "platform": {"selector", "uri", "sha256", "bin", "files"},
}
_VERSION = re.compile(r"v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?")


def problems(file_name: str, manifest: Mapping[str, Any]) -> Iterator[str]:
    """Everything that is wrong, as sentences."""
    yield from _strangers("", manifest)
    if (manifest.get("apiVersion"), manifest.get("kind")) != (API_VERSION, "Plugin"):
        yield "it is not a Plugin of v1alpha2"
    name = manifest.get("metadata", {}).get("name", "")
    if not re.fullmatch(r"[\w-]+", name, re.ASCII) or name.lower() in RESERVED:
        yield f"the name {name!r} is not allowed"
    if file_name != f"{name}.yaml":
        yield f"its file is {file_name}, not {name}.yaml"
    spec = manifest.get("spec", {})
    yield from _strangers("spec", spec)
    short = spec.get("shortDescription", "")
    if not short or re.search(r"[\r\n]", short):
        yield "shortDescription is one line"
    if not _VERSION.fullmatch(spec.get("version", "")):
        yield "version is semantic, with v before it"
    platforms = spec.get("platforms") or []
    if not platforms:
        yield "there is no platform"
    for one in platforms:
        yield from _of_platform(one)
    for platform in PLATFORMS:
        if sum(platform in _served(one) for one in platforms) > 1:
            yield f"several platforms serve {platform}"


def _strangers(part: str, found: Mapping[str, Any]) -> Iterator[str]:
    for field in sorted(found.keys() - _FIELDS[part]):
        yield f"{part or 'a manifest'} has no field {field}"


def _of_platform(one: Mapping[str, Any]) -> Iterator[str]:
    yield from _strangers("platform", one)
    for field in ("uri", "bin"):
        if not one.get(field):
            yield f"{field} is required"
    if not re.fullmatch("[a-f0-9]{64}", one.get("sha256", "")):
        yield "sha256 has 64 hexadecimal digits"
    if "files" in one and not (
        one["files"] and all(each.get("from") and each.get("to") for each in one["files"])
    ):
        yield "files is left out, or each has from and to"
    labels = one.get("selector", {}).get("matchLabels")
    if not labels or labels.keys() - {"os", "arch"}:
        yield "selector.matchLabels has os, arch, or both"
    elif not _served(one):
        yield f"{labels} is no platform of krew"


def _served(one: Mapping[str, Any]) -> set[tuple[str, str]]:
    labels = one.get("selector", {}).get("matchLabels") or {}
    return {
        (system, arch)
        for system, arch in PLATFORMS
        if labels.get("os", system) == system and labels.get("arch", arch) == arch
    }
