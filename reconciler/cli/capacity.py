"""`dra-reconciler capacity`: how many nodes of which shapes a demand needs."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import click

from reconciler.analysis.sizing.answer import as_json
from reconciler.api.manifests.bundle import Bundle
from reconciler.api.manifests.claims import Claims
from reconciler.api.manifests.inferred_nodes import InferredNodes, infer_nodes
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.slices import ResourceSlice
from reconciler.cli.capacity_question import Answer, Fleet, Question, costs_in
from reconciler.cli.common.cluster_listing import list_objects
from reconciler.cli.common.connection import Connection
from reconciler.cli.common.contexts import Reached, ask_each, check_usage, report_unreached
from reconciler.cli.common.contexts import as_json as contexts_as_json
from reconciler.cli.common.exits import Exit, NoAnswer, errors_as
from reconciler.cli.common.fleet_source import bundle_objects, read_files, read_valid
from reconciler.cli.common.held_room import note, split
from reconciler.cli.common.output import echo_value, remarks_on
from reconciler.cli.common.progress import ProgressTracker, track_progress
from reconciler.cli.common.room_source import KINDS
from reconciler.cli.common.waiting import wait_for
from reconciler.cli.views.sizing import print_side_by_side, print_sizing


def capacity(
    files: tuple[str, ...],
    connection: Connection,
    contexts: tuple[str, ...],
    demands: tuple[str, ...],
    pending: bool,
    shapes: tuple[str, ...],
    shape_files: tuple[str, ...],
    costs: tuple[str, ...],
    output: str,
    rules: Semantics,
    steps: int,
) -> None:
    """Carry out the command. Its options and its help are in `cli/commands/capacity.py`."""
    if bool(demands) == pending:
        raise click.UsageError("Name a demand: either --demand FILE, or --pending.")
    check_usage(connection, contexts, files, output)
    if files and connection.named:
        raise click.UsageError("Name manifests with -f, or a cluster, not both.")
    prices = costs_in(costs)
    with errors_as(NoAnswer), track_progress(quiet=output != "table") as progress:
        asked = _valid(read_files(demands, progress), "--demand")
        fleet = read_files(files, progress) if files else None
        more = _valid(read_files(shape_files, progress), "--shape-file")
        question = Question(asked, pending, shapes, more, prices, rules, steps)
        if not contexts:
            answer = question.of(_fleet(fleet, connection, progress), progress)
    if contexts:
        _show_contexts(question, connection, contexts, output)
    if output == "table":
        print_sizing(answer.result, sys.stdout)
    else:
        echo_value(as_json(answer.result, answer.shapes), output)
    sys.exit(Exit.OK if answer.result.answered else Exit.FAILED)


def _show_contexts(
    question: Question, connection: Connection, contexts: Sequence[str], output: str
) -> NoReturn:
    """Print the answers of several clusters, those in tables side by side."""
    with errors_as(NoAnswer), track_progress(quiet=output != "table") as progress:
        progress.stage("reading the clusters")
        reached = [
            _answered(one, question, progress)
            for one in ask_each(connection, contexts, lambda one: list_objects(KINDS, one, volumes=True))
        ]
    if output == "table":
        print_side_by_side([(one.context, one.found.result) for one in reached if one.found], sys.stdout)
    else:
        results = [as_json(one.found.result, one.found.shapes) if one.found else None for one in reached]
        echo_value(contexts_as_json(reached, results), output)
    silent = report_unreached(reached)
    if not any(one.found for one in reached):
        sys.exit(Exit.USAGE)
    answered = all(one.found.result.answered for one in reached if one.found)
    sys.exit(Exit.FAILED if silent or not answered else Exit.OK)


def _answered(
    reached: Reached[list[dict[str, Any]]], question: Question, progress: ProgressTracker
) -> Reached[Answer]:
    """The answer of one cluster, or why there is none."""
    if reached.found is None:
        return Reached(reached.context, problem=reached.problem)
    try:
        with remarks_on(reached.context):
            return Reached(reached.context, question.of(_of_cluster(reached.found), progress))
    except NoAnswer as exc:
        return Reached(reached.context, problem=exc.message)


def _valid(bundle: Bundle, option: str) -> Bundle:
    """A bundle without invalid objects: with them, too few nodes could be counted."""
    if bundle.refused:
        raise NoAnswer(f"some objects of {option} are invalid; fix them")
    return bundle


def _fleet(fleet: Bundle | None, connection: Connection, progress: ProgressTracker) -> Fleet:
    """The manifests, or else the cluster."""
    if fleet is None:
        progress.stage("reading the cluster")
        return _of_cluster(wait_for(list_objects(KINDS, connection, volumes=True)))
    claims = Claims(fleet)  # also those made from the templates of pods
    listed = [one for one in bundle_objects(fleet) if not isinstance(one, Node | Pod | ResourceClaim)]
    listed += [*fleet.of(Node), *map(claims.typed, claims.entries), *claims.pods]
    return Fleet(infer_nodes(fleet.of(Node), fleet.of(ResourceSlice)), listed, may_suppose=True)


def _of_cluster(raws: Iterable[dict[str, Any]]) -> Fleet:
    raws, held = split(raws)
    note(held)
    listed = list(read_valid(raws))
    nodes = tuple(one for one in listed if isinstance(one, Node))
    return Fleet(InferredNodes(nodes, (), None, ()), listed, held=held)
