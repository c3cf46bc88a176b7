"""The picture of manifests or of a cluster, for commands that ask about the whole of it once."""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import click

from reconciler.api.manifests.bundle import Bundle
from reconciler.api.manifests.inferred_nodes import infer_nodes
from reconciler.api.manifests.uids import with_own_uid
from reconciler.api.objects.claims import DeviceClass, ResourceClaim
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.objects.taint_rules import DeviceTaintRule
from reconciler.api.versions.reading import read
from reconciler.cli.common.cluster_listing import list_objects
from reconciler.cli.common.connection import Reach
from reconciler.cli.common.input import read_manifests, report_refused, report_warnings
from reconciler.cli.common.plain_text import plain
from reconciler.cli.common.progress import SILENT, Work
from reconciler.errors import Malformed


def read_files(files: Sequence[str], work: Work = SILENT) -> Bundle:
    """What manifests hold. Says on standard error what of it cannot be used."""
    bundle = read_manifests(files, work)
    report_warnings(bundle.warnings)
    report_refused(bundle.refused)
    return bundle


def list_cluster(kinds: Collection[str], reach: Reach) -> Iterator[ApiObject]:
    """The objects of a cluster. Says what cannot be read. Raises a ReconcilerError or OSError."""
    return readable(asyncio.run(list_objects(kinds, reach)))


def readable(raws: Iterable[dict[str, Any]]) -> Iterator[ApiObject]:
    """What can be read of objects that a server told."""
    for raw in raws:
        try:
            yield read(raw)
        except Malformed as exc:
            click.echo(plain(f"refused: {exc}"), err=True)


def in_bundle(bundle: Bundle) -> Iterator[ApiObject]:
    """The objects of manifests, with the nodes that they imply, and claims with a uid of their own."""
    slices = bundle.of(ResourceSlice)
    yield from (*slices, *bundle.of(DeviceClass), *bundle.of(DeviceTaintRule), *bundle.of(Pod))
    yield from infer_nodes(bundle.of(Node), slices).nodes
    yield from map(with_own_uid, bundle.of(ResourceClaim))
