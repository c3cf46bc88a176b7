"""What the page on security says of rights is so."""

import re

from reconciler.operations.serving.access import CACHE_SECONDS
from reconciler.settings import Settings
from tests.tools.deployed_rights import DEPLOY, Granted, bound

PAGE = (DEPLOY.parent / "docs" / "security.md").read_text()


def test_the_rights_are_those_of_the_roles():
    rights = Granted(bound("allocate")).rights
    wanted: dict[str, set[str]] = {}
    for right in rights:
        wanted.setdefault(f"{right.resource}.{right.group}".rstrip("."), set()).add(right.verb)
    rows = re.findall(r"^\| `([a-z0-9/.-]+)` \| ([a-z, ]+) \| [^|]+ \| [^|]+ \|$", PAGE, re.MULTILINE)
    assert {resource: set(verbs.split(", ")) for resource, verbs in rows} == wanted
    assert len(rows) == len(wanted)


def test_answers_are_remembered_as_long_as_the_page_says():
    assert f"remembered for {CACHE_SECONDS:.0f} s" in PAGE


def test_every_file_and_setting_that_is_named_exists():
    for path in re.findall(r"`(deploy/[A-Za-z/.]+)`", PAGE):
        assert (DEPLOY.parent / path).exists(), path
    for name in re.findall(r"`(status_[a-z_]+|search_steps|own_[a-z]+|insecure_[a-z_]+)`", PAGE):
        assert name in Settings.model_fields
