"""The options and the help of `dra-reconciler migrate`."""

from pathlib import Path

import click

from reconciler.api.migrate.limits import MOST
from reconciler.cli.common.options import (
    manifest_options,
    namespace_option,
    output_option,
)
from reconciler.cli.common.running import runs


@click.command()
@manifest_options
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
@runs("reconciler.cli.migrate:migrate_command")
def migrate() -> None:
    """Rewrite requests such as nvidia.com/gpu: 2 in manifests to claims, and make the templates for them.

    Rewrites Pods, PodTemplates, ReplicationControllers, Deployments, ReplicaSets, StatefulSets, DaemonSets,
    Jobs, CronJobs and JobSets. Other objects stay as they are. Writes nothing but its output, by default the
    differences:

    \b
      dra-reconciler migrate -f manifests/
      dra-reconciler migrate -f manifests/ -o yaml | kubectl apply -f -
    """
