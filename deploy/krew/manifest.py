"""Print the manifest of the kubectl plugin for krew, of the archives of a release.

usage: python3 -m deploy.krew.manifest REPOSITORY FOLDER

FOLDER holds archives named kubectl-dra_reconciler_OS_ARCH.tar.gz.
"""

import hashlib
import re
import sys
from pathlib import Path

from deploy.release.version import version

_NAME = re.compile(r"kubectl-dra_reconciler_(?P<os>[a-z]+)_(?P<arch>[a-z0-9]+)\.tar\.gz")
_HEAD = """\
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: dra-reconciler
spec:
  version: v{version}
  homepage: {repository}
  shortDescription: Explain and allocate devices of ResourceClaims
  description: |
    Explains why a ResourceClaim is pending and what would help, shows how full
    a fleet of devices is and what still fits, finds errors in ResourceSlices,
    answers what-if questions, and allocates claims of manifest files.
  platforms:
"""
_PLATFORM = """\
  - selector:
      matchLabels:
        os: {os}
        arch: {arch}
    uri: {repository}/releases/download/v{version}/{name}
    sha256: {sha256}
    bin: kubectl-dra_reconciler
"""


def manifest(repository: str, archives: list[Path]) -> str:
    """The manifest. Raises LookupError if there is no archive."""
    found = [(name, path) for path in sorted(archives) if (name := _NAME.fullmatch(path.name))]
    if not found:
        raise LookupError("no archive kubectl-dra_reconciler_OS_ARCH.tar.gz")
    text = _HEAD.format(version=version(), repository=repository)
    for name, path in found:
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        text += _PLATFORM.format(
            **name.groupdict(), repository=repository, version=version(), name=path.name, sha256=sha256
        )
    return text


if __name__ == "__main__":
    sys.stdout.write(manifest(sys.argv[1], list(Path(sys.argv[2]).iterdir())))
