"""`dra-reconciler explain`: why a claim is pending, from manifests or from a cluster."""

import sys
from collections.abc import Iterator
from typing import Any, TextIO

import click

from reconciler.allocation.dra.budget import STEPS
from reconciler.allocation.explanation import Explanation, Kind, Request, Step
from reconciler.allocation.policies.selection import Policies
from reconciler.allocation.reason_table import REASONS
from reconciler.analysis.explain.explain import as_json
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.similar_names import instead
from reconciler.cli import contexts as several
from reconciler.cli import options as cli_options
from reconciler.cli.cluster import from_cluster
from reconciler.cli.connection import Connection
from reconciler.cli.exits import Exit, NoAnswer, errors_as, exit_unless
from reconciler.cli.input import read_files
from reconciler.cli.names import completing
from reconciler.cli.output import Console, echo_value, plain, print_line, remark, track_progress, wrapped
from reconciler.cli.rule_options import koordinator_semantics_option, policy_options
from reconciler.errors import Rejected, counted
from reconciler.library.explaining import Situation, in_manifests

FITS = "Allocatable"
"""Instead of a reason: pending, though it fits now"""
BAR = 24
WORDS_INDENT = 10
"""Of words below their bar: as far as the number reaches"""
_ON_NODES = frozenset({Kind.ALIGNMENT, Kind.PARTITION})
"""Gates that show the number of nodes"""


def print_explanation(explanation: Explanation, out: TextIO) -> None:
    """Print a decision: its result, each request with its funnel, and what to do."""
    console = Console(out)
    block = _block(out)
    print_line(console, _head(explanation))
    for request in explanation.requests:
        console.print()
        owner = "pod" if explanation.pod is not None else "claim"
        print_line(console, f"request {request.request} of {owner} {request.claim} needs {_wanted(request)}")
        for line in _funnel(request, block, console.width):
            console.print(line)
        for line in request.sentences():
            print_line(console, line)
    for line in _tail(explanation):
        print_line(console, line)


def _block(out: TextIO) -> str:
    try:
        "█".encode(out.encoding or "ascii")
    except UnicodeError:
        return "#"
    return "█"


def _head(explanation: Explanation) -> str:
    claims = ", ".join(map(str, explanation.claims))
    subject = f"claim{'s' if len(explanation.claims) > 1 else ''} {claims}"
    if explanation.pod is not None:
        subject = f"pod {explanation.pod}"
    if explanation.allocatable:
        return f"{subject}: can be allocated on node {explanation.node}"
    message = explanation.message
    if len(explanation.claims) == 1:  # the subject names the claim
        message = message.removeprefix(f"claim {explanation.claims[0]}, ")
    return f"{subject}: {explanation.reason}: {message}"


def _wanted(request: Request) -> str:
    if request.wanted is None:
        return "all matching devices"
    return counted(request.wanted, "device")


def _funnel(request: Request, block: str, width: int) -> Iterator[str]:
    """A number, a bar and words for each gate. Words that are too long for their place follow below."""
    rows = [(request.devices, "all devices")]
    rows += [(step.left, plain(_words(step))) for step in request.funnel]
    for left, words in rows:
        bar = block * _length(left, request.devices)
        start = f"{left:>8}  {bar:<{BAR}}  "
        parts = wrapped(words, width - len(start))
        if all(len(part) <= width - len(start) for part in parts):
            yield start + parts[0]
            yield from (" " * len(start) + part for part in parts[1:])
        else:
            yield start.rstrip()
            yield from (" " * WORDS_INDENT + part for part in wrapped(words, width - WORDS_INDENT))


def _words(step: Step) -> str:
    words = step.about + (f", error on {step.errors}" if step.errors else "")
    if step.kind in _ON_NODES and step.nodes is not None:
        words += f", on {counted(step.nodes, 'node') if step.nodes else 'no node'}"
    return words + (f" ({step.detail})" if step.detail else "")


def _length(left: int, total: int) -> int:
    """The length of a bar; at least 1 if a device remains."""
    return max(round(BAR * left / total), 1) if left else 0


def _tail(explanation: Explanation) -> Iterator[str]:
    if explanation.allocatable:
        return
    yield ""
    if explanation.constraints:
        yield f"without the constraint on {' or '.join(explanation.constraints)} it could be allocated"
    if explanation.preferences:
        yield f"without {' or '.join(explanation.preferences)} it could be allocated"
    parts = (*explanation.conflict, *explanation.conflicting)
    if len(parts) > 1:
        yield f"these cannot hold together: {', '.join(f'{key} {text}' for key, text in parts)}"
    yield from (f"decided by {short}" for short in explanation.deciding)
    for miss in explanation.nearest:
        yield f"nearest miss: {miss}"
    yield f"what to do: {explanation.remedy}"


def _known_reason(_ctx: click.Context, _option: click.Parameter, reason: str | None) -> str | None:
    if reason is not None and reason not in (known := {*REASONS, FITS}):
        raise click.BadParameter(f"there is no reason {reason}{instead(reason, known, 'reasons')}")
    return reason


def _selector(_ctx: click.Context, _option: click.Parameter, labels: str | None) -> str | None:
    if labels:
        from reconciler.embedded.reading import label_predicate  # noqa: PLC0415 - only for this option

        try:
            label_predicate(labels)
        except Rejected as exc:
            raise click.BadParameter(str(exc)) from exc
    return labels


@click.command()
@click.argument(
    "target",
    metavar="[[NAMESPACE/|TYPE/]NAME]",
    required=False,
    shell_complete=completing("ResourceClaim", typed={"claim": "ResourceClaim", "pod": "Pod"}),
)
@cli_options.namespace_option
@click.option(
    "--pod", "of_pod", is_flag=True, help="The name is that of a pod, as pod/NAME: explain all its claims."
)
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="List what is pending anywhere.")
@click.option(
    "-l",
    "--selector",
    metavar="LABELS",
    callback=_selector,
    help="List what has these labels, as for kubectl.",
)
@click.option(
    "--reason", metavar="REASON", callback=_known_reason, help="List what is pending for this reason."
)
@click.option("-w", "--watch", "watched", is_flag=True, help="Also list what changes, until interrupted.")
@cli_options.contexts_option
@koordinator_semantics_option(default="proposal")
@policy_options
@cli_options.fleet_options("table", "wide", "json", "yaml", "name", steps=STEPS)
@cli_options.pass_clock
def explain(
    clock: cli_options.Clock,
    target: str | None,
    namespace: str | None,
    of_pod: bool,
    everywhere: bool,
    selector: str | None,
    reason: str | None,
    watched: bool,
    files: tuple[str, ...],
    connection: Connection,
    contexts: tuple[str, ...],
    output: str,
    rules: Semantics,
    koordinator_semantics: str,
    steps: int,
    policies: Policies,
) -> None:
    """Explain why a claim is pending: the devices that pass each gate, the blocking gates, near misses.

    Without a name, lists what is pending, in one namespace or with -A in all; -o wide adds the message.

    Reads a cluster as it is now, or manifests with -f. In manifests, claims and pods that come first are
    allocated first, as `allocate` does. All claims of a pod are explained together, for one node. With --pod,
    also explains pods that request Koordinator's devices.

    \b
    Examples:
      dra-reconciler explain -A
      dra-reconciler explain inference/vision -f manifests/
    """
    several.check_contexts(connection, contexts, files, output)
    options = {"koordinator_semantics": koordinator_semantics}
    if target is None:
        if contexts or of_pod or (files and watched):
            raise click.UsageError("--contexts and --pod need a NAME, and -w needs a cluster.")
        if everywhere and namespace is not None:
            raise click.UsageError("Name a namespace with -n, or all with -A, not both.")
        from reconciler.cli.explain_list import Selection, list_pending  # noqa: PLC0415 - what decides live

        inside = None if everywhere else cli_options.namespace_of(namespace, connection, in_cluster=not files)
        selection = Selection(inside, selector or "", reason)
        list_pending(
            files, connection, selection, rules, options, policies, output, clock, steps, watched=watched
        )
        return
    if everywhere or selector or reason or watched:
        raise click.UsageError("-A, -l, --reason and -w are for lists, without a name.")
    if output in ("wide", "name"):
        raise click.UsageError(f"-o {output} is for lists, without a name.")
    kind, before, name = cli_options.named(
        target, cli_options.CLAIM_TYPES | cli_options.POD_TYPES, "pod" if of_pod else "claim"
    )
    of_pod = kind == "pod"
    quiet = output != "table"
    if contexts:
        from reconciler.cli.explain_cluster import ask_cluster  # noqa: PLC0415 - what decides live

        async def ask(one: Connection) -> tuple[ObjectKey, Situation]:
            own = ObjectKey(before or cli_options.namespace_of(namespace, one, in_cluster=True), name)
            return own, await ask_cluster(own, rules, options, one, of_pod=of_pod, policies=policies)

        _explain_contexts(several.ask_each(connection, contexts, ask), output, steps=steps)
        return
    with errors_as(NoAnswer):
        key = ObjectKey(before or cli_options.namespace_of(namespace, connection, in_cluster=not files), name)
    with track_progress(quiet=quiet) as progress:
        if files:
            bundle = read_files(files, progress)
            progress.stage("allocating earlier claims")
            situation = in_manifests(
                bundle,
                rules,
                key,
                of_pod=of_pod,
                steps=steps,
                policies=policies,
                options=options,
                on_question=progress.step,
            )
        else:
            from reconciler.cli.explain_cluster import ask_cluster  # noqa: PLC0415 - what decides live

            progress.stage("reading the cluster")
            situation = from_cluster(
                ask_cluster(key, rules, options, connection, of_pod=of_pod, policies=policies)
            )
    if not situation.known:
        raise NoAnswer(plain(situation.message))
    for note in situation.notes:
        remark(f"note: {note}")
    explanations = _explained(situation, steps=steps, quiet=quiet)
    if output == "table":
        _print(key, situation, explanations)
    else:
        echo_value(_results(key, situation, explanations), output)
    exit_unless(_goes_well(situation, explanations))


def _explained(situation: Situation, *, steps: int, quiet: bool) -> list[Explanation]:
    with track_progress(quiet=quiet) as progress:
        return [*situation.explanations] + [
            question.explained(steps) for question in progress.each("explaining", situation.questions)
        ]


def _explain_contexts(
    reached: list[several.Reached[tuple[ObjectKey, Situation]]], output: str, *, steps: int
) -> None:
    """Explain the claim on each cluster that has it. Exits with 0 if one can allocate it or has done so."""
    well: list[bool] = []
    results: list[Any] = []
    first = True
    for one in reached:
        result = None
        if one.found is not None:
            key, situation = one.found
            explanations = _explained(situation, steps=steps, quiet=output != "table")
            if situation.known:
                well.append(_goes_well(situation, explanations))
            result = _results(key, situation, explanations)
            if output == "table":
                several.print_heading(one.context, first=first)
                first = False
                _print(key, situation, explanations)
        results.append(result)
    if output != "table":
        echo_value(several.contexts_as_json(reached, results), output)
    several.report_unreached(reached)
    if not well:
        sys.exit(Exit.USAGE)
    exit_unless(any(well))


def _goes_well(situation: Situation, explanations: list[Explanation]) -> bool:
    return situation.allocated or any(one.allocatable for one in explanations)


def _print(key: ObjectKey, situation: Situation, explanations: list[Explanation]) -> None:
    for number, explanation in enumerate(explanations):
        if number:
            click.echo()
        print_explanation(explanation, sys.stdout)
    if not explanations:
        print_line(Console(sys.stdout), f"{key}: {situation.message}")


def _results(key: ObjectKey, situation: Situation, explanations: list[Explanation]) -> list[dict[str, Any]]:
    nothing = {"name": str(key), "allocatable": situation.allocated, "message": situation.message}
    return [as_json(one) for one in explanations] or [nothing]
