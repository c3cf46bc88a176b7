"""How options are declared: in groups, and those that few need only in `--help-all`."""

import re
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import click

F = Callable[..., Any]
Decorator = Callable[[F], F]


def all_of(*decorators: Decorator) -> Decorator:
    """Combine decorators, in the order in which they would be written above a function."""
    return lambda func: reduce(lambda made, decorator: decorator(made), reversed(decorators), func)


class AdvancedOption(click.Option):
    """An option that stands only in the help of `--help-all`. Completion offers it all the same."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The two columns of the help, None unless all options are shown."""
        return super().get_help_record(ctx) if ctx.meta.get(_ALL) else None


advanced_option = partial(click.option, cls=AdvancedOption)
"""As `click.option`, for an option that few need"""

_ALL = "reconciler.help_all"


def _show_all(ctx: click.Context, _option: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


_HELP_ALL = click.Option(
    ["--help-all"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_all,
    help="Show this message with all options.",
)


def first_sentence(text: str) -> str:
    """The first sentence of a setting's text, with its period, in one line."""
    return re.split(r"(?<=\.)\s", text + " ", maxsplit=1)[0].replace("\n", " ")


def add_help_all(command: click.Command) -> None:
    """Give a command with advanced options the option that shows them."""
    if _HELP_ALL not in command.params and any(isinstance(one, AdvancedOption) for one in command.params):
        command.params.append(_HELP_ALL)


def add_repeatable(command: click.Command) -> None:
    """Say in the help of each option that can be given several times that it can."""
    for one in command.params:
        if isinstance(one, click.Option) and one.multiple and one.help and "repeated" not in one.help:
            text, *default = one.help.partition("  [default")
            one.help = f"{text} Can be repeated.{''.join(default)}"
