"""Asks the clusters of several contexts at the same time, and prints their answers one below the other."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import click
from msgspec import Struct

from reconciler.cli.connection import Connection
from reconciler.cli.exits import NoAnswer, Unreachable, errors_as, note_refusal
from reconciler.cli.options import FOR_PEOPLE
from reconciler.cli.output import Console, Table, print_line, remark, remarks_on
from reconciler.cluster.target import kubeconfig_places, merge_kubeconfigs
from reconciler.errors import ReconcilerError

T = TypeVar("T")
ALL = "all"
PATIENCE_SECONDS = 120.0
"""For all answers of one cluster; connecting alone has a shorter limit"""


class Reached(Struct, Generic[T], frozen=True):
    """What one cluster answered."""

    context: str
    found: T | None = None
    problem: str = ""
    """Why there is no answer"""


def check_contexts(
    connection: Connection, contexts: Sequence[str], files: Sequence[str], output: str
) -> None:
    """Raise UsageError for options that contradict `--contexts`."""
    if not contexts:
        return
    if connection.server or connection.context or files:
        raise click.UsageError("--contexts excludes --context, --server and -f.")
    if output not in (*FOR_PEOPLE, "json", "yaml"):
        raise click.UsageError(f"--contexts has no output {output}.")


def ask_each(
    connection: Connection, contexts: Sequence[str], ask: Callable[[Connection], Awaitable[T]]
) -> list[Reached[T]]:
    """Ask all clusters at the same time, and return their answers in the order of the contexts.

    Remarks of `ask` name the context. Around later work on an answer, `remarks_on` does that.
    Raises Unreachable if no context exists.
    """
    return asyncio.run(_ask_each(connection, _known(connection, contexts), ask))


def report_unreached(reached: Sequence[Reached[Any]]) -> None:
    """Print a line on standard error for each cluster without an answer. Without any answer, exit with 3."""
    silent = [one for one in reached if one.problem]
    for one in silent:
        remark(f"Error: context {one.context}: {one.problem}")
        note_refusal()
    if reached and len(silent) == len(reached):
        sys.exit(Unreachable.exit_code)


def print_heading(context: str, *, first: bool) -> None:
    """Print the name of a context above its part of the output."""
    console = Console(sys.stdout)
    if not first:
        console.print()
    print_line(console, f"context {context}", style="bold")


def contexts_as_json(reached: Iterable[Reached[Any]], results: Iterable[Any]) -> dict[str, Any]:
    """The results of all contexts; `results` has one for each, None without an answer."""
    return {
        "contexts": [
            {"context": one.context, "problem": one.problem or None, "result": result}
            for one, result in zip(reached, results, strict=True)
        ]
    }


def side_by_side(parts: Iterable[tuple[str, Sequence[Table]]]) -> list[Table]:
    """Tables of several contexts in one: those with the same headings become one table."""
    made: dict[tuple[str, ...], Table] = {}
    for context, tables in parts:
        for table in tables:
            joined = made.setdefault(table.headings, table.within("CONTEXT"))
            for row in table.rows:
                joined.add((context, *row))
    return list(made.values())


async def _ask_each(
    connection: Connection, contexts: Sequence[str], ask: Callable[[Connection], Awaitable[T]]
) -> list[Reached[T]]:
    async def one(context: str) -> Reached[T]:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                with remarks_on(context):
                    return Reached(context, await ask(connection._replace(context=context)))
        except TimeoutError:
            return Reached(context, problem=f"no answer within {PATIENCE_SECONDS:g} s")
        except (ReconcilerError, OSError, NoAnswer) as exc:
            return Reached(context, problem=str(exc))

    return list(await asyncio.gather(*map(one, contexts)))


def _known(connection: Connection, contexts: Sequence[str]) -> Sequence[str]:
    """The contexts, or all of the kubeconfig. Contexts that it lacks are left to the connection."""
    if tuple(contexts) != (ALL,):
        return contexts
    with errors_as(Unreachable):
        found = merge_kubeconfigs(kubeconfig_places(connection.kubeconfig))
    names = [one["name"] for one in found.value["contexts"]]
    if not names:
        raise Unreachable(
            f"no kubeconfig with a context at {', '.join(kubeconfig_places(connection.kubeconfig))}"
        )
    return names
