"""`dra-reconciler replay`: repeat the decisions of a journal, without a cluster."""

import sys
from pathlib import Path
from typing import Any

import click
from msgspec import to_builtins

from reconciler.allocation.explanation import Explanation
from reconciler.allocation.policies.names import POLICIES
from reconciler.allocation.policies.selection import parse_policies
from reconciler.analysis.explain.explain import as_json
from reconciler.cli.exits import exit_unless
from reconciler.cli.explain import print_explanation
from reconciler.cli.options import output_option
from reconciler.cli.output import Console, echo_value, print_line, track_progress
from reconciler.cli.rule_options import checked_policies, demand_in, demand_option
from reconciler.control.inputs import Answered, Outcome
from reconciler.errors import Rejected, counted
from reconciler.operations.journal.replaying import Again, Tally
from reconciler.operations.journal.replaying import replay as replay_journal
from reconciler.operations.log_setup import configure


@click.command()
@click.argument("journal", type=click.Path(exists=True, path_type=Path), metavar="FILE|DIR")
@click.option("--until", metavar="DECISION", help="Stop after the decision with this id.")
@click.option(
    "--explain", "explained", is_flag=True, help="Explain the refusals, or with --until that decision."
)
@click.option(
    "--policy",
    "--diff-policy",
    "policy",
    multiple=True,
    callback=checked_policies,
    metavar="[DRIVER=|class:CLASS=]NAME",
    help=f"Compare with other policies: {', '.join(POLICIES)}.  [default: those of the journal]",
)
@demand_option
@output_option("table", "json", "yaml")
def replay(
    journal: Path,
    until: str | None,
    explained: bool,
    policy: tuple[str, ...],
    demand: Path | None,
    output: str,
) -> None:
    """Repeat the decisions of a journal, from the same inputs in the same order, and compare.

    `run --journal DIR` writes a journal. Share ids are random, so they are not compared. With --policy, each
    decision is made from the recorded state, as if the policy had decided it alone.

    \b
    Examples:
      dra-reconciler replay journal/
      dra-reconciler replay journal/ --explain --until DECISION
    """
    names = parse_policies(policy) if policy else None
    wanted = None if demand is None else demand_in(demand)
    configure("warning", "short")
    explanations: list[dict[str, Any]] = []
    last: list[Again] = []

    def explains(decision: Answered) -> bool:
        return explained and (decision.id == until if until is not None else bool(decision.outcome.reason))

    with track_progress(quiet=output != "table") as progress:
        progress.stage("repeating decisions")

        def on_decision(again: Again) -> None:
            last[:] = [again]
            if explains(again.then):
                decision, explanation = again.then.id, again.explanation
                explanations.append(
                    {"decision": decision, "explanation": explanation and as_json(explanation)}
                )
                if output == "table":
                    _print_explanation(decision, explanation)

        try:
            tally = replay_journal(
                journal,
                until=until,
                names=names,
                demand=wanted,
                explained=explains,
                seen=on_decision,
                progress=progress.step,
            )
        except Rejected as exc:
            raise click.UsageError(str(exc)) from exc
    if until is not None and (not last or last[0].then.id != until):
        raise click.UsageError(f"decision {until} is not in {journal}")
    if output == "table":
        _print(tally)
    else:
        echo_value(_as_json(tally, explanations), output)
    exit_unless(not tally.different)


def _print_explanation(decision: str, explanation: Explanation | None) -> None:
    if explanation is None:
        print_line(Console(sys.stdout), f"decision {decision}: it cannot be explained")
    else:
        print_line(Console(sys.stdout), f"decision {decision}")
        print_explanation(explanation, sys.stdout)


def _as_json(tally: Tally, explanations: list[dict[str, Any]]) -> dict[str, Any]:
    different = [
        {"then": _decided(again.then, again.then.outcome), "now": _decided(again.then, again.now)}
        for again in tally.different
        if again.now is not None
    ]
    return {
        "same": tally.same,
        "unknown": tally.unknown,
        "different": different,
        "explanations": explanations,
    }


def _decided(decision: Answered, outcome: Outcome) -> dict[str, Any]:
    claims = [str(key) for key in outcome.claims]
    return {"id": decision.id, "unit": str(decision.unit), **to_builtins(outcome), "claims": claims}


def _print(tally: Tally) -> None:
    for again in tally.different:
        assert again.now is not None
        claims = ", ".join(map(str, again.then.outcome.claims)) or again.then.unit
        print_line(Console(sys.stdout), f"decision {again.then.id} for {claims} differs:")
        print_line(Console(sys.stdout), f"  recorded: {_result(again.then.outcome)}")
        print_line(Console(sys.stdout), f"  replayed: {_result(again.now)}")
    parts = [f"{counted(tally.same, 'decision')} the same", f"{len(tally.different)} different"]
    if tally.unknown:
        parts.append(f"{tally.unknown} not repeated because earlier entries are missing")
    print_line(Console(sys.stdout), ", ".join(parts))


def _result(outcome: Outcome) -> str:
    if outcome.reason:
        return outcome.reason
    return f"{'; '.join(', '.join(one) for one in outcome.devices)} on {outcome.node}"
