"""The command line: one file a command. A command is imported when it is called, not before."""

from importlib import import_module
from importlib.metadata import version

import click
from click.shell_completion import CompletionItem

from reconciler.cli.common.exits import exits_text

COMMANDS = {
    "allocate": ("reconciler.cli.allocate:allocate", "Allocate the claims of manifests, without a cluster."),
    "apiserver": ("reconciler.cli.apiserver:apiserver", "Run the embedded API server alone."),
    "completion": ("reconciler.cli.completion:completion", "Print the script by which a shell completes."),
    "convert": ("reconciler.cli.convert:convert", "Write manifests of any version as resource.k8s.io/v1."),
    "demo": (
        "reconciler.cli.demo.command:demo",
        "Allocate sample claims on the embedded API server, and end.",
    ),
    "doctor": ("reconciler.cli.doctor:doctor", "Say what is wrong with slices, classes and claims."),
    "explain": ("reconciler.cli.explain:explain", "Say why a claim waits, or where it could be allocated."),
    "logs": ("reconciler.cli.logs:logs", "Say what happened, from the lines that `run` wrote."),
    "modes": ("reconciler.cli.modes:modes", "Show what is held on each device, and what it locks out."),
    "replay": ("reconciler.cli.replay:replay_command", "Make the decisions of a journal again."),
    "top": ("reconciler.cli.top:top", "Show how full the devices are, and what still fits."),
    "run": ("reconciler.cli.run:run", "Allocate the claims of a cluster, until told to end."),
    "whatif": ("reconciler.cli.whatif:whatif", "Say whether claims would fit, if; and what would be lost."),
}
"""Name -> where the command is, and its line in the help, so that help does not import any"""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return sorted(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command; None if there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        command.epilog = exits_text(cmd_name)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names of commands and our own options. From the table alone: to import all takes a second."""
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=COMMANDS[name][1]) for name in names]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands from the table of names alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("dra-reconciler"), prog_name="dra-reconciler")
def main() -> None:
    """Allocate devices on Kubernetes, for a cluster or for manifests in files."""


def kubectl_plugin() -> None:
    """Run as `kubectl dra_reconciler`: the same commands, and help that says what was typed."""
    main(prog_name="kubectl dra_reconciler")


def kubectl_complete() -> None:
    """Answer kubectl, which asks what could come next after `kubectl dra_reconciler ...`."""
    from reconciler.cli.completion import answer_kubectl  # noqa: PLC0415 - no command needs it

    answer_kubectl(main)
