"""`importlib.metadata` is loaded by the first use of any of its parts, in a process of its own."""

import pytest

from tests.tools.loaded_modules import loaded_after

POSTPONED = "from reconciler.aio.late_metadata import postpone_metadata\npostpone_metadata()\n"
LOADED = {"importlib.metadata._meta", "email"}


@pytest.mark.parametrize(
    "how",
    [
        "",
        "from importlib.metadata import entry_points",
        "import importlib.metadata",
        "import importlib.util\nassert importlib.util.find_spec('importlib.metadata').has_location",
    ],
)
def test_it_is_not_loaded_before_it_is_used(how: str):
    assert not loaded_after(POSTPONED + how) & LOADED


@pytest.mark.parametrize(
    "code",
    [
        "from importlib.metadata import version\nassert version('click')",
        "from importlib.metadata import entry_points\nassert entry_points(group='console_scripts')",
        "import importlib.metadata\nassert importlib.metadata.version('click')",
        "import importlib.metadata as late\nassert late.version('click') == late.version('click')",
        "from importlib import metadata\ntry: metadata.version('no such')\n"
        "except metadata.PackageNotFoundError: pass",
        "import importlib.metadata._meta, importlib.metadata as m\nassert m.PackagePath",
    ],
)
def test_whoever_uses_it_gets_it(code: str):
    after = "\nimport importlib, sys\nassert sys.modules['importlib.metadata'] is importlib.metadata"
    assert loaded_after(POSTPONED + code + after) >= LOADED


def test_one_that_is_loaded_stays():
    code = "import importlib.metadata as first\n" + POSTPONED
    assert loaded_after(code + "import importlib.metadata as second\nassert first is second") >= LOADED
