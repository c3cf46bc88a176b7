"""What the page on security says of rights and limits is so."""

import re

from reconciler.api.objects.json_annotations import MAX_LENGTH
from reconciler.cel import errors
from reconciler.cluster.http import LONGEST_ANSWER, LONGEST_LINE
from reconciler.operations.events.events import BURST, MAX_BYTES, PER_SECOND
from reconciler.operations.serving.access import AT_ONCE, CACHE_SECONDS, LONGEST_TOKEN
from reconciler.settings import Settings
from tests.tools.deployed_rights import DEPLOY, Granted, bound

PAGE = (DEPLOY.parent / "docs" / "security.md").read_text()


def test_the_table_of_rights_is_that_of_the_roles():
    rights = Granted(bound("allocate")).rights
    wanted: dict[str, set[str]] = {}
    for right in rights:
        wanted.setdefault(f"{right.resource}.{right.group}".rstrip("."), set()).add(right.verb)
    rows = re.findall(r"^\| `([a-z0-9/.-]+)` \| ([a-z, ]+) \| .+ \|$", PAGE, re.MULTILINE)
    assert {resource: set(verbs.split(", ")) for resource, verbs in rows} == wanted
    assert len(rows) == len(wanted)


def test_limits_are_those_of_the_code():
    steps = Settings.model_fields["search_steps"].default
    for told in (
        f"{LONGEST_ANSWER // 2**20} MiB; {LONGEST_LINE // 2**20} MiB",
        f"{errors.MAX_LENGTH // 1024} KiB, {errors.MAX_NESTING}, {errors.COST_LIMIT:,}",
        f"| {errors.DECISION_COST_LIMIT:,} |",
        f"| {steps:,} (`search_steps`)",
        f"| {MAX_LENGTH // 2**20} MiB |",
        f"{PER_SECOND:.0f} a second after a burst of {BURST}; {MAX_BYTES // 1024} KiB of text",
        f"| {LONGEST_TOKEN // 1024} KiB; {AT_ONCE} |",
        f"remembered for {CACHE_SECONDS:.0f} s",
    ):
        assert told in PAGE, told


def test_every_file_and_setting_that_is_named_exists():
    for path in re.findall(r"`(deploy/[A-Za-z/.]+)`", PAGE):
        assert (DEPLOY.parent / path).exists(), path
    for name in re.findall(r"`(status_[a-z_]+|search_steps|own_[a-z]+|insecure_[a-z_]+)`", PAGE):
        assert name in Settings.model_fields
