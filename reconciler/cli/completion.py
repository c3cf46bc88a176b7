"""`dra-reconciler completion`: the script by which a shell completes our commands, options and files."""

import os
import sys

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

NAME = "dra-reconciler"
_VARIABLE = "_DRA_RECONCILER_COMPLETE"
"""By this variable the script asks the program; click derives the same name from the program's"""
_FILES, _NOTHING_ELSE = 0, 4
"""Directives of kubectl: let the shell complete files; do not"""


@click.command(short_help="Print the script by which a shell completes commands, options and files.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script by which a shell completes commands, options, their values and files.

    \b
      source <(dra-reconciler completion bash)                                          # this bash
      dra-reconciler completion bash > ~/.local/share/bash-completion/completions/dra-reconciler
      dra-reconciler completion zsh > "${fpath[1]}/_dra-reconciler"
      dra-reconciler completion fish > ~/.config/fish/completions/dra-reconciler.fish

    kubectl completes the plugin by itself where it is written with a dash, `kubectl dra-reconciler`: it
    asks the program kubectl_complete-dra_reconciler, which is installed beside this one.
    """
    found = get_completion_class(shell)
    assert found is not None
    root = click.get_current_context().find_root().command
    click.echo(found(root, {}, NAME, _VARIABLE).source())


class KubectlComplete(ShellComplete):
    """Answers kubectl: the words so far are arguments, the last of them is not finished."""

    name = "kubectl"

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words that are finished, and the one that is not."""
        *before, last = sys.argv[1:] or [""]
        return before, last

    def format_completion(self, item: CompletionItem) -> str:
        """One line: the word, and what it is for."""
        return f"{item.value}\t{item.help}" if item.help else str(item.value)


def answer_kubectl(command: click.Command) -> None:
    """Print what could come next after the words of the command line, and how the shell is to take it."""
    os.environ.setdefault("COLUMNS", "200")
    complete = KubectlComplete(command, {}, NAME, _VARIABLE)
    items = complete.get_completions(*complete.get_completion_args())
    names = [item for item in items if item.type == "plain"]
    for item in names:
        click.echo(complete.format_completion(item))
    click.echo(f":{_NOTHING_ELSE if len(names) == len(items) else _FILES}")
