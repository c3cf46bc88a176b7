"""`dra-reconciler explain`: why a claim is pending, from manifests or from a cluster."""

import sys
from typing import Any

import click

from reconciler.allocation.policies.selection import Policies
from reconciler.allocation.reasons.explanation import Explanation
from reconciler.analysis.explain.explain import explain as explain_claims
from reconciler.analysis.explain.report import as_json
from reconciler.api.manifests.bundle import Bundle
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.cli.common.connection import Connection
from reconciler.cli.common.console import Console
from reconciler.cli.common.contexts import (
    Reached,
    ask_each,
    check_usage,
    print_heading,
    report_unreached,
)
from reconciler.cli.common.contexts import as_json as contexts_as_json
from reconciler.cli.common.exits import Exit, NoAnswer, errors_as
from reconciler.cli.common.input import read_manifests, report_refused, report_warnings
from reconciler.cli.common.options import (
    namespace_of,
)
from reconciler.cli.common.output import echo_value, print_line, remark
from reconciler.cli.common.plain_text import plain
from reconciler.cli.common.progress import ProgressTracker, track_progress
from reconciler.cli.common.waiting import wait_for
from reconciler.cli.explain_question import in_manifests
from reconciler.cli.explain_situation import Situation
from reconciler.cli.views.explanation import print_explanation
from reconciler.plugins.koordinator.rules import Rules
from reconciler.plugins.koordinator.rules import Semantics as DeviceSemantics


def explain(
    target: str,
    namespace: str | None,
    of_pod: bool,
    files: tuple[str, ...],
    connection: Connection,
    contexts: tuple[str, ...],
    output: str,
    rules: Semantics,
    koordinator_semantics: str,
    steps: int,
    policies: Policies,
) -> None:
    """Carry out the command. Its options and its help are in `cli/commands/explain.py`."""
    if files and connection.named:
        raise click.UsageError("Name manifests with -f, or a cluster, not both.")
    check_usage(connection, contexts, files, output)
    before, _, name = target.rpartition("/")
    if not name or "/" in before:
        raise click.UsageError(f"{target!r} is not a claim name: write CLAIM or NAMESPACE/CLAIM.")
    quiet = output != "table"
    machines = Rules(DeviceSemantics(koordinator_semantics))
    if contexts:

        async def ask(one: Connection) -> tuple[ObjectKey, Situation]:
            from reconciler.cli.explain_cluster import ask_cluster  # noqa: PLC0415 - as below

            own = ObjectKey(before or namespace_of(namespace, one, in_cluster=True), name)
            return own, await ask_cluster(own, rules, machines, one, of_pod=of_pod, policies=policies)

        _explain_contexts(ask_each(connection, contexts, ask), output, steps=steps)
        return
    with errors_as(NoAnswer):
        key = ObjectKey(before or namespace_of(namespace, connection, in_cluster=not files), name)
    with track_progress(quiet=quiet) as progress:
        if files:
            bundle = read_manifests(files, progress)
            report_warnings(bundle.warnings)
            report_refused(bundle.refused)
            progress.stage("allocating earlier claims")
            situation = _in_manifests(
                bundle, rules, machines, key, of_pod=of_pod, steps=steps, policies=policies, progress=progress
            )
        else:
            # Late import: manifests need no client, and not what takes in the changes of a cluster.
            from reconciler.cli.explain_cluster import ask_cluster  # noqa: PLC0415

            progress.stage("reading the cluster")
            with errors_as(NoAnswer):
                situation = wait_for(
                    ask_cluster(key, rules, machines, connection, of_pod=of_pod, policies=policies)
                )
    if not situation.known:
        raise NoAnswer(plain(situation.message))
    for note in situation.notes:
        remark(f"note: {note}")
    if not situation.questions and not situation.explanations:
        _print_message(key, situation.message, output, allocated=situation.allocated)
        sys.exit(Exit.OK if situation.allocated else Exit.FAILED)
    explanations = _explained(situation, steps=steps, quiet=quiet)
    _print(explanations, output)
    sys.exit(Exit.OK if any(one.allocatable for one in explanations) else Exit.FAILED)


def _in_manifests(
    bundle: Bundle,
    rules: Semantics,
    machines: Rules,
    key: ObjectKey,
    *,
    of_pod: bool,
    steps: int,
    policies: Policies,
    progress: ProgressTracker,
) -> Situation:
    if of_pod:
        # Late import: a claim has nothing to do with Koordinator's devices.
        from reconciler.cli import explain_devices  # noqa: PLC0415

        if explain_devices.requests_devices(bundle.of(Pod), key, machines):
            return explain_devices.in_manifests(
                bundle, rules, machines, key, steps=steps, policies=policies, on_question=progress.step
            )
    return in_manifests(
        bundle, rules, key, of_pod=of_pod, steps=steps, policies=policies, on_question=progress.step
    )


def _explained(situation: Situation, *, steps: int, quiet: bool) -> list[Explanation]:
    with track_progress(quiet=quiet) as progress:
        return [*situation.explanations] + [
            explain_claims(q.claims, q.snapshot, nodes=q.nodes, answer=q.answer, steps=steps)
            for q in progress.each("explaining", situation.questions)
        ]


def _explain_contexts(
    reached: list[Reached[tuple[ObjectKey, Situation]]], output: str, *, steps: int
) -> None:
    """Explain the claim on each cluster that has it. Exits with 0 if one can allocate it or has done so."""
    codes: list[Exit] = []
    results: list[Any] = []
    first = True
    for one in reached:
        result = None
        if one.found is not None:
            key, situation = one.found
            explanations = _explained(situation, steps=steps, quiet=output != "table")
            well = situation.allocated or any(each.allocatable for each in explanations)
            if situation.known:
                codes.append(Exit.OK if well else Exit.FAILED)
            result = (
                [as_json(each) for each in explanations]
                if explanations
                else [_message(key, situation.message, allocated=situation.allocated)]
            )
            if output == "table":
                print_heading(one.context, first=first)
                first = False
                if explanations:
                    _print(explanations, output)
                else:
                    _print_message(key, situation.message, output, allocated=situation.allocated)
        results.append(result)
    if output != "table":
        echo_value(contexts_as_json(reached, results), output)
    report_unreached(reached)
    sys.exit(min(codes, default=Exit.USAGE))


def _print(explanations: list[Explanation], output: str) -> None:
    if output != "table":
        echo_value([as_json(one) for one in explanations], output)
        return
    for number, explanation in enumerate(explanations):
        if number:
            click.echo()
        print_explanation(explanation, sys.stdout)


def _print_message(key: ObjectKey, message: str, output: str, *, allocated: bool) -> None:
    if output != "table":
        echo_value([_message(key, message, allocated=allocated)], output)
    else:
        print_line(Console(sys.stdout), f"{key}: {message}")


def _message(key: ObjectKey, message: str, *, allocated: bool) -> dict[str, Any]:
    return {"name": str(key), "allocatable": allocated, "message": message}
