"""`dra-reconciler completion`: the completion script for a shell."""

import os
import sys

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

NAME = "dra-reconciler"
_VARIABLE = "_DRA_RECONCILER_COMPLETE"
"""The variable with which the script calls the program; click derives it from the program name"""
_FILES, _NOTHING_ELSE = 0, 4
"""Directives for kubectl: the shell also completes files; it does not"""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script with which a shell completes commands, options, their values and files.

    \b
    Examples:
      source <(dra-reconciler completion bash)  # this bash
      cd ~/.local/share/bash-completion/completions
      dra-reconciler completion bash > dra-reconciler
      dra-reconciler completion zsh > "${fpath[1]}/_dra-reconciler"
      cd ~/.config/fish/completions
      dra-reconciler completion fish > dra-reconciler.fish

    kubectl completes the plugin without a script if it is spelled with a dash, `kubectl dra-reconciler`: it
    calls the program kubectl_complete-dra_reconciler, which is installed with this one.
    """
    complete = get_completion_class(shell)
    assert complete is not None
    root = click.get_current_context().find_root().command
    click.echo(complete(root, {}, NAME, _VARIABLE).source())


class KubectlComplete(ShellComplete):
    """Completion for kubectl: the words are arguments of the program, and the last one is incomplete."""

    name = "kubectl"

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the complete words, and the incomplete one."""
        *before, last = sys.argv[1:] or [""]
        return before, last

    def format_completion(self, item: CompletionItem) -> str:
        """One line: the word and its help."""
        return f"{item.value}\t{item.help}" if item.help else str(item.value)


def answer_kubectl(command: click.Command) -> None:
    """Print the completions of the command line, and the directive for the shell."""
    os.environ.setdefault("COLUMNS", "200")
    complete = KubectlComplete(command, {}, NAME, _VARIABLE)
    items = complete.get_completions(*complete.get_completion_args())
    names = [item for item in items if item.type == "plain"]
    for item in names:
        click.echo(complete.format_completion(item))
    click.echo(f":{_NOTHING_ELSE if len(names) == len(items) else _FILES}")
