"""`dra-reconciler migrate`: rewrite requests for extended resources in manifests to claims."""

import difflib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from reconciler.api.manifests.bundle import bundle
from reconciler.api.manifests.documents import Document, Refusal, documents
from reconciler.api.migrate.map_file import read_map
from reconciler.api.migrate.mapping import Resources, mapping
from reconciler.api.migrate.pods import Template
from reconciler.api.migrate.workloads import Migration, migrate
from reconciler.api.objects.claims import DeviceClass
from reconciler.cli.common.console import Console
from reconciler.cli.common.exits import Exit, NoAnswer, errors_as
from reconciler.cli.common.input import report_nothing, report_refused
from reconciler.cli.common.output import as_documents, as_list, print_line, remark
from reconciler.cli.common.plain_text import counted, object_name, plain

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def migrate_command(
    files: tuple[str, ...],
    map_file: Path | None,
    counts: int | None,
    namespace: str | None,
    without_gate: bool,
    output: str,
) -> None:
    """Carry out the command. Its options and its help are in `cli/commands/migrate.py`."""
    if not files and counts is None:
        raise click.UsageError("No input: name manifests with -f FILE, -f DIR or -f -.")
    found = list(documents(files, sys.stdin.buffer))
    read = [one for one in found if isinstance(one, Document)]
    refused = [one for one in found if isinstance(one, Refusal)]
    if files and not found:
        report_nothing(files)
    classes = bundle(one for one in read if one.raw.get("kind") == "DeviceClass").of(DeviceClass)
    with errors_as(NoAnswer):
        resources = mapping(classes, read_map(map_file), str(map_file or ""))
        ahead = list(_ahead(resources, counts or 0))
        migration = migrate(
            (one.raw for one in read), resources, gate=not without_gate, ahead=ahead, namespace=namespace
        )
    objects = [*migration.templates, *(one.after for one in migration.changes)]
    match output:
        case "yaml":
            click.echo(as_documents(objects, explicit_start=True), nl=False)
        case "json":
            click.echo(as_list(objects), nl=False)
        case "name":
            changed = [*migration.templates, *(one.after for one in migration.changes if one.changed)]
            for one in changed:
                click.echo(object_name(str(one["kind"]), _name_of(one)))
        case _:
            _print(migration)
    report_refused(refused)
    sys.exit(_report(migration, bool(refused)))


def _ahead(resources: Resources, counts: int) -> Iterator[Template]:
    """The templates for 1 to `counts` devices of each named resource."""
    for wanted in dict.fromkeys(resources.named.values()):
        for count in range(1, counts + 1):
            yield Template(wanted, count)


def _report(migration: Migration, refused: bool) -> Exit:
    """Print what was not rewritten, on standard error."""
    unmapped: dict[str, list[str]] = {}
    failed = refused
    for one in migration.changes:
        if one.problem is not None:
            failed = True
            remark(f"Error: {one.problem}")
        for resource in one.unmapped:
            unmapped.setdefault(resource, []).append(_named(one.before))
    for resource, users in unmapped.items():
        more = f" and {len(users) - 1} more" if len(users) > 1 else ""
        remark(f"not rewritten: {resource} of {users[0]}{more} stands for no class; name one with --map")
    if failed:
        return Exit.FAILED
    return Exit.PARTIAL if unmapped else Exit.OK


def _print(migration: Migration) -> None:
    console = Console(sys.stdout)
    for template in migration.templates:
        for line in _differences({}, template, f"new {_named(template)}"):
            console.print(plain(line), _STYLES.get(line[:1], ""))
    changed = [one for one in migration.changes if one.changed]
    for one in changed:
        for line in _differences(one.before, one.after, _named(one.before)):
            console.print(plain(line), _STYLES.get(line[:1], ""))
    objects = counted(len(changed), "object")
    templates = counted(len(migration.templates), "new template")
    print_line(console, f"{objects} to change, {templates}")


def _differences(before: Mapping[str, Any], after: Mapping[str, Any], title: str) -> Iterator[str]:
    old, new = (as_documents([dict(one)]).splitlines() if one else [] for one in (before, after))
    yield from difflib.unified_diff(old, new, fromfile=title, tofile=title, lineterm="")


def _named(raw: Mapping[str, Any]) -> str:
    metadata = raw.get("metadata") or {}
    name = _name_of(raw) or "without a name"
    return f"{raw.get('kind')} {'/'.join(filter(None, (metadata.get('namespace'), name)))}"


def _name_of(raw: Mapping[str, Any]) -> str:
    metadata = raw.get("metadata") or {}
    return metadata.get("name") or metadata.get("generateName") or ""
