"""What a start may import: the wait before the first line is mostly that."""

import json
import subprocess
import sys
from pathlib import Path
from typing import get_args

from reconciler.allocation.policies.demand import NO_DEMAND
from reconciler.allocation.policies.names import POLICIES
from reconciler.allocation.policies.selection import policy_named
from reconciler.settings import PolicyName
from tests.tools.patience import PATIENCE
from tests.tools.short_manifests import CLASS, claim, gpus, together


def loaded_by(*commands: str) -> set[str]:
    """The modules in memory after some commands, all in one process of its own."""
    return loaded_after(
        "from reconciler.cli import main\n"
        f"for command in {commands!r}:\n"
        "    try:\n"
        "        main(command.split(), standalone_mode=False)\n"
        "    except SystemExit:\n"  # many commands end so
        "        pass\n"
    )


def loaded_after(code: str) -> set[str]:
    """The modules in memory after some code, in a process of its own."""
    listing = "import json, sys; print(); print(json.dumps([*sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{listing}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


HEAVY = {"asyncio", "msgspec", "numpy", "pydantic", "rich", "structlog", "yaml"}
"""Libraries that take more than a few milliseconds to import"""
CLIENT = {"aiohttp", "cryptography", "jinja2", "kubernetes_asyncio", "prometheus_client"}
"""What only a cluster, a server or the status page needs: together more than half a second"""
OFFLINE = (
    *("allocate", "capacity --pending", "convert", "defragment", "doctor", "explain default/one"),
    *("make-room default/one", "migrate", "modes", "top", "whatif --count 1"),
)
"""Commands on a small file"""


def test_the_list_of_commands_imports_no_command_and_no_library():
    loaded = loaded_by("--help")
    assert not loaded & (HEAVY | CLIENT)


def test_commands_on_files_import_no_client_and_no_server(tmp_path: Path):
    (tmp_path / "m.yaml").write_text(together(CLASS, gpus("n1", 2), claim("one")))
    assert not loaded_by(*(f"{command} -f {tmp_path}" for command in OFFLINE)) & CLIENT


def test_what_only_rewrites_manifests_imports_nothing_that_decides(tmp_path: Path):
    """Selectors are compiled, with lark, once there is one."""
    plain = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}}
    (tmp_path / "m.json").write_text(json.dumps(plain))
    assert not loaded_by(f"convert -f {tmp_path}", f"migrate -f {tmp_path}") & {"numpy", "lark", "asyncio"}
    selecting = {**plain, "spec": {"selectors": [{"cel": {"expression": "device.driver == 'd'"}}]}}
    (tmp_path / "m.json").write_text(json.dumps(selecting))
    assert loaded_by(f"convert -f {tmp_path}") & {"numpy", "lark"} == {"lark"}


def test_a_start_on_a_cluster_imports_no_embedded_server():
    code = "import reconciler.cli.run"
    assert not loaded_after(code) & {"cryptography", "reconciler.embedded"}


def test_every_name_of_a_policy_in_a_help_is_one_that_can_be_made():
    assert get_args(PolicyName) == POLICIES
    for name in POLICIES:
        policy_named(name, NO_DEMAND)
