"""What a start may import: the wait before the first line is mostly that."""

from collections.abc import Sequence, Set
from pathlib import Path
from typing import get_args

import pytest

from reconciler.allocation.policies.demand import NO_DEMAND
from reconciler.allocation.policies.named import policy_named
from reconciler.allocation.policies.names import POLICIES
from reconciler.cli import COMMANDS
from reconciler.cli.commands.top import SORTS
from reconciler.cli.top import ORDERS
from reconciler.settings import PolicyName
from tests.tools.loaded_modules import loaded_after, loaded_by
from tests.tools.short_manifests import CLASS, claim, gpus, together

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
HEAVY = {
    *("aiohttp", "asyncio", "celpy", "cryptography", "jinja2", "kubernetes_asyncio"),
    *("lark", "msgspec", "numpy", "prometheus_client", "pydantic", "pydantic_settings", "rich", "ssl"),
    *("structlog", "yaml"),
}
"""Libraries that take more than a few milliseconds to import"""
CLIENT = {"aiohttp", "cryptography", "jinja2", "kubernetes_asyncio", "lark", "prometheus_client", "urllib3"}
"""What only a cluster, a server, the status page or another grammar of selectors needs"""
WAITING = {"asyncio", "rich.console", "ssl", "structlog"}
"""What only commands need that wait for a server, write a log or draw on a terminal"""
OTHERS = {"reconciler.plugins.kueue.objects"}
"""Models of objects that only a running process reads"""
RARE = {"argparse", "numpy.ma", "re2", "semver"}
"""What single functions import: `np.unique` of values alone; versions as attributes; patterns"""
OFFLINE = [
    (("convert", "migrate"), CLIENT | WAITING | OTHERS | {"numpy"}),
    (("allocate", "explain default/one"), CLIENT | WAITING | OTHERS),
    (("doctor", "modes", "top", "whatif --count 1"), CLIENT | WAITING | OTHERS),
    (("capacity --pending", "make-room default/one"), CLIENT | WAITING | OTHERS),
]
"""Commands on a small file, and what they must not import"""


def test_the_help_of_no_command_imports_what_the_command_does():
    loaded = loaded_by(*(f"{name} --help" for name in COMMANDS))
    assert not loaded & HEAVY
    ours = {name for name in loaded if name.startswith("reconciler.")}
    assert not any(name.startswith(("reconciler.state", "reconciler.cluster")) for name in ours)
    declared = {f"reconciler.cli.commands.{name.replace('-', '_')}" for name in COMMANDS}
    assert declared <= ours


@pytest.mark.parametrize(("commands", "never"), OFFLINE)
def test_commands_on_files_import_only_what_they_use(
    commands: Sequence[str], never: Set[str], tmp_path: Path
):
    (tmp_path / "m.yaml").write_text(together(CLASS, gpus("n1", 2), claim("one")))
    assert not loaded_by(*(f"{command} -f {tmp_path}" for command in commands)) & never


def test_commands_on_the_examples_import_nothing_that_few_fleets_need():
    commands = ("allocate", "capacity --pending", "defragment", "doctor", "modes", "top")
    about_one = ("explain default/near", "make-room default/near")
    loaded = loaded_by(*(f"{command} -f {EXAMPLES}" for command in (*commands, *about_one)))
    assert not loaded & (CLIENT | WAITING | OTHERS | RARE)


def test_yaml_that_is_written_plainly_needs_no_library(tmp_path: Path):
    (tmp_path / "m.yaml").write_text(together(CLASS, gpus("n1", 2), claim("one")))
    commands = ("allocate", "explain default/one", "modes", "top", "whatif --count 1")
    assert "yaml" not in loaded_by(*(f"{command} -f {tmp_path}" for command in commands))


def test_a_command_loads_no_metadata_of_distributions(tmp_path: Path):
    (tmp_path / "m.yaml").write_text(together(CLASS, gpus("n1", 2), claim("one")))
    code = f"""
import sys, dra_reconciler
sys.argv[1:] = ["allocate", "-f", {str(tmp_path)!r}]
try: dra_reconciler.main()
except SystemExit: pass
"""
    assert not loaded_after(code) & {"email", "importlib.metadata._meta", "tempfile", "zipfile"}


def test_a_start_on_a_cluster_imports_neither_the_page_nor_the_embedded_server():
    code = "import reconciler.cli.run"
    assert not loaded_after(code) & {"cryptography", "jinja2", "reconciler.embedded"}


def test_every_name_of_a_policy_in_a_help_is_one_that_can_be_made():
    assert get_args(PolicyName) == POLICIES
    for name in POLICIES:
        policy_named(name, NO_DEMAND)


def test_every_order_in_the_help_of_top_is_one_that_it_has():
    assert ("name", *ORDERS) == SORTS
