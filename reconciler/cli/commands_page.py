"""docs/commands.md, made from the commands themselves: `python -m reconciler.cli.commands_page`."""

import sys
from collections.abc import Iterator

import click

from reconciler.cli import COMMANDS, main
from reconciler.cli.common.exits import EXITS

_WIDTH = 110
_HEAD = """\
# Commands

Made by `python -m reconciler.cli.commands_page > docs/commands.md` from the commands themselves; do not edit.

As a plugin of kubectl they are `kubectl dra_reconciler COMMAND`, or with a dash, `kubectl dra-reconciler
COMMAND`; nothing else differs. `dra-reconciler completion bash` prints what completes commands, options and
files; kubectl completes the spelling with a dash.

What is asked for goes to standard output, everything else to standard error. Where standard output is no
terminal, tables have no colours and lines are never cut; `NO_COLOR` takes the colours from a terminal, too.
Progress is shown on terminals only.

## Exit codes

| command | code | meaning |
|---|---|---|
"""


def page() -> str:
    """The whole page."""
    codes = "".join(
        f"| {f'`{command}`' if not at else ''} | {code} | {meaning} |\n"
        for command, found in sorted(EXITS.items())
        for at, (code, meaning) in enumerate(found.items())
    )
    return _HEAD + codes + "\n" + "\n".join(_sections())


def _sections() -> Iterator[str]:
    root = click.Context(main, info_name="dra-reconciler", help_option_names=["-h", "--help"])
    for name in sorted(COMMANDS):
        command = main.get_command(root, name)
        assert command is not None
        command.epilog = None  # the codes are in the table above
        context = click.Context(command, info_name=name, parent=root, max_content_width=_WIDTH)
        context.terminal_width = _WIDTH
        yield f"## {name}\n\n```\n{command.get_help(context)}\n```\n"


if __name__ == "__main__":
    sys.stdout.write(page())
