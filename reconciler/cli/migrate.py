"""`dra-reconciler migrate`: rewrite requests for extended resources in manifests to claims."""

import difflib
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from reconciler.api.manifests.bundle import bundle, kind_of
from reconciler.api.manifests.documents import Document, InvalidDocument, documents
from reconciler.api.migrate.pods import Template
from reconciler.api.migrate.special_claims import MOST, Resources, mapping, read_map
from reconciler.api.migrate.workloads import Migration, is_used
from reconciler.api.migrate.workloads import migrate as migrate_objects
from reconciler.api.objects.claims import DeviceClass
from reconciler.cli.exits import NoAnswer, errors_as, exit_unless
from reconciler.cli.input import known_alone, nothing_in, nothing_usable, report_refused
from reconciler.cli.options import manifest_options, namespace_option, output_option, strict_option
from reconciler.cli.output import Console, as_documents, as_list, object_name, plain, print_line, remark
from reconciler.errors import counted, shortened

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


@click.command()
@manifest_options
@strict_option
@click.option(
    "--map",
    "map_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="What resources stand for; docs/from-device-plugins.md shows it.  [default: extendedResourceName of "
    "the DeviceClasses in the input; GPUs and MIG profiles of NVIDIA]",
)
@click.option(
    "--templates",
    "counts",
    type=click.IntRange(1, MOST),
    metavar="COUNT",
    help="Also make the templates for up to COUNT devices of all resources that are known by name.",
)
@namespace_option
@click.option("--without-gate", is_flag=True, help="Do not add our scheduling gate to the pods.")
@output_option(
    "diff", "yaml", "json", "name", explained="diff; yaml and json: all objects and the new templates."
)
def migrate(
    files: tuple[str, ...],
    map_file: Path | None,
    counts: int | None,
    namespace: str | None,
    without_gate: bool,
    output: str,
) -> None:
    """Rewrite requests such as nvidia.com/gpu: 2 in manifests to claims, and make the templates for them.

    Rewrites Pods, PodTemplates, ReplicationControllers, Deployments, ReplicaSets, StatefulSets, DaemonSets,
    Jobs, CronJobs and JobSets. Other objects stay as they are. Writes nothing but its output, by default the
    differences.

    \b
    Examples:
      dra-reconciler migrate -f manifests/
      dra-reconciler migrate -f manifests/ -o yaml > migrated.yaml
    """
    if not files and counts is None:
        raise click.UsageError("No input: name manifests with -f FILE, -f DIR or -f -.")
    found = list(documents(files, sys.stdin.buffer))
    read = [one for one in found if isinstance(one, Document)]
    refused = [one for one in found if isinstance(one, InvalidDocument)]
    ours = known_alone(replace(bundle(read), refused=()))  # what is invalid stays as it is
    refused += ours.refused
    read = [one for one in read if one.origin not in {other.origin for other in ours.refused}]
    if files and not any(is_used(one.raw) for one in read):
        report_refused(refused)
        others = Counter(kind_of(one.raw) for one in read)
        raise NoAnswer(nothing_usable(len(refused), others) or nothing_in(files))
    classes = ours.of(DeviceClass)
    with errors_as(NoAnswer):
        resources = mapping(classes, read_map(map_file), str(map_file or ""))
        ahead = list(_ahead(resources, counts or 0))
        migration = migrate_objects(
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
    exit_unless(_report(migration))


def _ahead(resources: Resources, counts: int) -> Iterator[Template]:
    """The templates for 1 to `counts` devices of each named resource."""
    for wanted in dict.fromkeys(resources.named.values()):
        for count in range(1, counts + 1):
            yield Template(wanted, count)


def _report(migration: Migration) -> bool:
    """Print what was not rewritten, on standard error. Whether there is nothing."""
    unmapped: dict[str, list[str]] = {}
    failed = False
    for one in migration.changes:
        if one.problem is not None:
            failed = True
            remark(f"Error: {one.problem}")
        for resource in one.unmapped:
            unmapped.setdefault(resource, []).append(_named(one.before))
    for resource, users in unmapped.items():
        remark(f"not rewritten: {resource} of {shortened(users, 1)} stands for no class; name one with --map")
    return not (failed or unmapped)


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
