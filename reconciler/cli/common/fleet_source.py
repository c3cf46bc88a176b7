"""All objects of manifests or of a cluster, for commands that read them once."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from reconciler.api.manifests.bundle import Bundle, storage_of
from reconciler.api.manifests.inferred_nodes import infer_nodes
from reconciler.api.manifests.uids import with_own_uid
from reconciler.api.objects.claims import DeviceClass, ResourceClaim
from reconciler.api.objects.core import Namespace, Node, Pod
from reconciler.api.objects.gangs import CoschedulingPodGroup, PodGroup
from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.objects.taint_rules import DeviceTaintRule
from reconciler.api.versions.shared_parts import read
from reconciler.cli.common.cluster_listing import list_objects
from reconciler.cli.common.connection import Connection
from reconciler.cli.common.input import read_first_and_all, read_manifests, report_refused, report_warnings
from reconciler.cli.common.output import remark
from reconciler.cli.common.progress import SILENT, ProgressTracker
from reconciler.cli.common.waiting import wait_for
from reconciler.errors import Malformed
from reconciler.plugins.koordinator.objects import Device, read_device


def read_files(files: Sequence[str], progress: ProgressTracker = SILENT) -> Bundle:
    """Read manifests. Prints warnings and invalid objects to standard error."""
    bundle = read_manifests(files, progress)
    _report(bundle)
    return bundle


def read_first_file_and_all(
    files: Sequence[str], progress: ProgressTracker = SILENT
) -> tuple[Bundle, Bundle]:
    """The same for a command whose first file holds its question: that file by itself, and all of them."""
    first, every = read_first_and_all(files, progress)
    _report(every)
    return first, every


def _report(bundle: Bundle) -> None:
    report_warnings(bundle.warnings)
    report_refused(bundle.refused)


def list_cluster(kinds: Collection[str], connection: Connection) -> Iterator[ApiObject]:
    """List a cluster. Prints invalid objects to standard error. Raises ReconcilerError or OSError."""
    return read_valid(wait_for(list_objects(kinds, connection)))


def read_devices(raws: Iterable[dict[str, Any]]) -> Iterator[Device]:
    """Koordinator's Device objects of a server. Prints the invalid ones to standard error."""
    for raw in raws:
        try:
            yield read_device(raw)
        except Malformed as exc:
            remark(f"refused: {exc}")


def read_valid(raws: Iterable[dict[str, Any]]) -> Iterator[ApiObject]:
    """The valid ones among the objects of a server. Prints the invalid ones to standard error."""
    for raw in raws:
        try:
            yield read(raw)
        except Malformed as exc:
            remark(f"refused: {exc}")


def bundle_objects(bundle: Bundle) -> Iterator[ApiObject]:
    """The objects of manifests, with the nodes that the slices imply and a unique uid for each claim."""
    slices = bundle.of(ResourceSlice)
    yield from (*slices, *bundle.of(DeviceClass), *bundle.of(DeviceTaintRule), *bundle.of(Pod))
    yield from (*bundle.of(PodGroup), *bundle.of(CoschedulingPodGroup))
    yield from (*bundle.of(Namespace), *storage_of(bundle))
    yield from infer_nodes(bundle.of(Node), slices).nodes
    yield from map(with_own_uid, bundle.of(ResourceClaim))
