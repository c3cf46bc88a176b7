"""What the image would hold, installed by the steps of its recipe, allocates as the image runs it: as another
user, with a read-only root, without capabilities, and with the environment of deploy/base.

Namespaces stand for an engine. The installation takes minutes, so `make soak` does it.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from reconciler.embedded import serve
from tests.tools.checkout import ROOT
from tests.tools.image import IMAGE, RECIPE
from tests.tools.patience import PATIENCE
from tests.tools.running_reconciler import Cluster
from tests.tools.small_fleet import DRIVER, claim, device_class, devices, node

UNSHARE = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
TOOLS = Path(sys.prefix)
"""Has what the recipe installs into /tools: both come from requirements.lock"""
SYSTEM = {
    path: path
    for path in ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt", sys.base_prefix)
    if Path(path).is_dir()
}
"""Folders of this machine -> where they are in the container"""
NOBODY = (
    *("/usr/bin/setpriv", "--reuid=65532", "--regid=65532", "--clear-groups", "--no-new-privs"),
    *("--bounding-set=-all", "--inh-caps=-all", "--"),
)
PROBE = """
print(open("/proc/self/status").read())
for path in ("/venv/x", "/x", "/venv/cache/x", "/tmp/x"):
    try:
        open(path, "w")
    except OSError as exc:
        print(path, exc.strerror)
"""


def namespaces_work() -> bool:
    if not shutil.which("unshare") or not shutil.which("setpriv") or os.getuid() != 0:
        return False
    tried = subprocess.run(
        [*UNSHARE, "mount", "-t", "tmpfs", "none", "/mnt"], check=False, capture_output=True
    )
    return tried.returncode == 0


pytestmark = [
    pytest.mark.loopback,
    pytest.mark.skipif(os.environ.get("SIZE") != "full", reason="installs for minutes; SIZE=full does"),
    pytest.mark.skipif(not namespaces_work(), reason="needs root, setpriv, and unshare that may mount"),
]


def contained(
    root: Path, command: Sequence[str], shown: Mapping[str, str], *, writable: bool = False
) -> list[str]:
    """The command with `root` as its root, in which folders of this machine are shown, and /tmp is new."""
    lines = ["set -eu", "umask 022", f"chmod 755 {root}", f"mount --bind {root} {root}"]
    for here, there in shown.items():
        lines += [f"mkdir -p {root}{there}", f"mount --bind {here} {root}{there}"]
        lines.append(f"mount -o remount,bind,ro {root}{there}")
    lines += [f"mkdir -p {root}/proc {root}/dev {root}/tmp", f"mount -t proc proc {root}/proc"]
    for device in ("null", "urandom"):
        lines += [f"touch {root}/dev/{device}", f"mount --bind /dev/{device} {root}/dev/{device}"]
    lines.append(f"mount -t tmpfs -o mode=1777 none {root}/tmp")
    lines += [] if writable else [f"mount -o remount,bind,ro {root}"]
    lines.append(f'exec chroot {root} "$@"')
    return [*UNSHARE, "sh", "-c", "\n".join(lines), "sh", *command]


def environment(**more: str) -> dict[str, str]:
    return {"PATH": f"{sys.base_prefix}/bin:/usr/sbin:/usr/bin:/sbin:/bin", **more}


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the last stage copies from the first, made by the steps of the first."""
    root = tmp_path_factory.mktemp("build")
    (root / "tools").symlink_to(TOOLS)
    shown = {**SYSTEM, str(TOOLS): str(TOOLS)}
    of_pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    for step in RECIPE:
        match step.cmd.lower():
            case "from" if "sweep" in step.value:
                break
            case "copy":
                *sources, target = step.value
                for source in sources:
                    there = root / "src" / target / (source if target.endswith("/") else "")
                    there.parent.mkdir(parents=True, exist_ok=True)
                    copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
                    copy(ROOT / source, there)
            case "run" if "/tools" not in step.value and "requirements.lock" not in step.value:
                words = ["sh", "-c", 'cd /src && exec "$@"', "sh", *step.value]
                command = contained(root, words, shown, writable=True)
                done = subprocess.run(
                    command, check=False, env=environment(**of_pip), capture_output=True, text=True
                )
                assert done.returncode == 0, f"{step.original}\n{done.stdout}\n{done.stderr}"
    return root / "venv"


def as_nobody(root: Path, venv: Path, *command: str) -> list[str]:
    """The command in the last stage, as kubelet starts it with our securityContext."""
    return contained(root, [*NOBODY, *command], {**SYSTEM, str(venv): "/venv"})


def test_the_bill_of_materials_lists_what_is_installed_and_nothing_else(venv: Path):
    parts = json.loads((venv / "sbom.cdx.json").read_text())["components"]
    listed = {part["name"].lower().replace("_", "-") for part in parts}
    assert listed == {name for name, _ in IMAGE}


def test_it_has_no_rights(venv: Path, tmp_path: Path):
    command = as_nobody(tmp_path, venv, "/venv/bin/python", "-c", PROBE)
    said = subprocess.run(command, check=True, capture_output=True, text=True, env=environment()).stdout
    fields = dict(line.split(":\t", 1) for line in said.splitlines() if ":\t" in line)
    assert fields["Uid"].split() == fields["Gid"].split() == ["65532"] * 4
    assert {fields[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert fields["NoNewPrivs"] == "1"
    refused = [line.split()[0] for line in said.splitlines() if line.endswith("Read-only file system")]
    assert refused == ["/venv/x", "/x", "/venv/cache/x"]


async def test_the_deployed_command_allocates_there(venv: Path, tmp_path: Path):
    (deployment,) = yaml.safe_load_all((ROOT / "deploy" / "base" / "deployment.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    variables = {one["name"]: one["value"] for one in container["env"]}
    variables |= {
        "DRA_RECONCILER_OWN_DRIVERS": DRIVER,
        "DRA_RECONCILER_STATUS_PORT": "0",
        "DRA_RECONCILER_ALL_CLAIMS": "true",
        "DRA_RECONCILER_LEASE_SECONDS": "2",
    }
    of_image = [step.value for step in RECIPE if step.cmd.lower() == "env"][-1]
    variables |= dict(zip(of_image[::2], of_image[1::2], strict=True))
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "dra-reconciler"}}
    cluster = Cluster([namespace, device_class(), node("n"), devices("n", "d0"), claim("c")])
    async with serve(cluster.api) as server:
        command = as_nobody(
            tmp_path, venv, "/venv/bin/dra-reconciler", *container["args"], "--server", server
        )
        running = await asyncio.create_subprocess_exec(
            *command, env=environment(**variables), stderr=asyncio.subprocess.PIPE
        )
        try:
            allocated = asyncio.create_task(cluster.until(lambda: cluster.devices("c")))
            ended = asyncio.create_task(running.wait())
            await asyncio.wait({allocated, ended}, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
        finally:
            if running.returncode is None:  # unshare itself ignores SIGTERM
                inner = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text()  # noqa: ASYNC240
                os.kill(int(inner), signal.SIGTERM)
            _, errors = await running.communicate()
            allocated.cancel()
    assert running.returncode == 0, errors.decode()
    assert cluster.devices("c") == ["n/d0"], errors.decode()
