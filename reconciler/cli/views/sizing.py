"""The tables of `capacity`."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TextIO

from reconciler.analysis.sizing.answer import Option, Sizing
from reconciler.cli.common.console import Console
from reconciler.cli.common.contexts import side_by_side
from reconciler.cli.common.output import print_line, print_table
from reconciler.cli.common.plain_text import counted
from reconciler.cli.common.table import Table


def print_sizing(result: Sizing, out: TextIO) -> None:
    """Print the verdict, then the demand, then the options, then what each new node holds."""
    console = Console(out)
    for line in _verdict(result):
        print_line(console, line)
    for table in _tables(result):
        console.print()
        print_table(console, table)


def _tables(result: Sizing) -> Iterator[Table]:
    if result.items:
        yield _demand(result)
    if result.options:
        yield _options(result)
        yield _groups(result.options[0], result)


def print_side_by_side(answers: Sequence[tuple[str, Sizing]], out: TextIO) -> None:
    """Print the verdict for each context, then the tables of all contexts as one each."""
    console = Console(out)
    for context, result in answers:
        for line in _verdict(result):
            print_line(console, f"{context}: {line}")
    for table in side_by_side((context, list(_tables(result))) for context, result in answers):
        console.print()
        print_table(console, table)


def _verdict(result: Sizing) -> Iterator[str]:
    if not result.items:
        yield "nothing is pending: no node is needed"
    elif result.fits_now:
        yield "fits now: no node is needed"
    elif result.options:
        best = result.options[0]
        proof = "proven cheapest" if best.optimal else f"the cost is at least {_number(best.at_least)}"
        yield f"add {nodes_text(best)}: {proof}"
    for one in result.items:
        if one.left and one.refused is not None:
            yield (
                f"{one.left} of {one.item.count} {one.item.name} do not fit now: "
                f"{one.refused.reason}: {one.refused.message}"
            )
    for one in result.unserved:
        if not one.refused_by:
            yield f"{one.item.name} fits on no shape: no shape was given or found"
        for shape, why in one.refused_by.items():
            yield f"{one.item.name} does not fit on an empty {shape}: {why.reason}: {why.message}"


def nodes_text(option: Option) -> str:
    """`3 nodes like node-1, 1 node like node-7`."""
    return ", ".join(f"{counted(count, 'node')} like {name}" for name, count in option.nodes.items())


def _demand(result: Sizing) -> Table:
    table = Table(("DEMAND", "COUNT", "FIT NOW", "LEFT", "SHAPES"), right=("COUNT", "FIT NOW", "LEFT"))
    for one in result.items:
        shapes = ", ".join(one.served_by) or "none"
        table.add((one.item.name, str(one.item.count), str(one.placed), str(one.left), shapes))
    return table


def _options(result: Sizing) -> Table:
    table = Table(("ADD", "NODES", "COST", "AT LEAST", "PROVEN"), right=("NODES", "COST", "AT LEAST"))
    for one in result.options:
        names = ", ".join(f"{count} x {name}" for name, count in one.nodes.items())
        total = str(sum(one.nodes.values()))
        proven = "yes" if one.optimal else "no"
        table.add((names, total, _number(one.cost), _number(one.at_least), proven))
    return table


def _groups(option: Option, result: Sizing) -> Table:
    table = Table(("SHAPE", "NODES", "EACH HOLDS"), right=("NODES",))
    for group in option.groups:
        held = "\n".join(
            f"{count} x {one.item.name}"
            for one, count in zip(result.items, group.holds, strict=True)
            if count
        )
        table.add((group.shape, str(group.nodes), held))
    return table


def _number(value: Fraction) -> str:
    return f"{float(value):g}"
