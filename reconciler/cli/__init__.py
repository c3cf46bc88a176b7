"""The command line: one file per command. What a command does is imported only when it runs."""

import os
from importlib import import_module

import click
from click.shell_completion import CompletionItem

from reconciler.cli.exits import CONTRACT, exit_codes, exit_if_refused, exits_text
from reconciler.cli.help import add_help_all, add_repeatable

os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
# There are none, and pydantic would read the entry points of every installed distribution to see that.

GROUPS = {
    "Look at a fleet": {
        "top": "Show the usage of devices, and what still fits.",
        "explain": "Explain why a claim is pending, or where it can be allocated.",
        "doctor": "Find problems in slices, classes and claims.",
        "modes": "Show what each device is used for, and what that locks out.",
        "dashboard": "Open the status page in a browser.",
        "logs": "Summarize or filter the log lines of `run`.",
    },
    "Ask what if": {
        "whatif": "What-if analysis: which claims would fit or be lost.",
        "fit": "Find out how many pods of some sets would fit, and where.",
        "capacity": "Find out how many nodes of which shapes a demand needs.",
        "make-room": "Find the cheapest pods to evict so that something fits.",
        "drain": "Find out whether all on a node or device can go elsewhere.",
        "defragment": "Find pods to move so that more large devices fit.",
    },
    "Allocate": {
        "allocate": "Allocate the claims in manifests, without a cluster.",
        "run": "Allocate the claims of a cluster until it is stopped.",
        "demo": "Allocate sample claims on the embedded API server, then exit.",
        "apiserver": "Run only the embedded API server.",
    },
    "Convert and migrate": {
        "convert": "Convert manifests of any version to resource.k8s.io/v1.",
        "migrate": "Rewrite requests for extended resources to claims.",
    },
    "Operate": {
        "replay": "Repeat the decisions of a journal and compare.",
        "release-gates": "Remove our scheduling gate from pods, to uninstall.",
        "completion": "Print the completion script for a shell.",
    },
}
"""Groups of commands in the order of the help: name -> the line there."""

COMMANDS = {name: line for group in GROUPS.values() for name, line in group.items()}
"""All commands. This package has a module of each name, with - as _, and in it the command."""


class LazyGroup(click.Group):
    """A group that imports the declaration of a command when it is named."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return sorted(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the declaration of a command; None if no command has this name."""
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        import_module("reconciler.plugins")  # registers them, before a command looks for them
        command = getattr(import_module(f"reconciler.cli.{name}"), name)
        assert isinstance(command, click.Command)
        command.epilog = exits_text(exit_codes(cmd_name))
        add_help_all(command)
        add_repeatable(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, but the error suggests the command that was probably meant."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as exc:
            from reconciler.api.objects.similar_names import closest  # noqa: PLC0415 - only for this error

            close = closest(args[0], COMMANDS, most=1)
            if not close:
                raise
            raise click.UsageError(f"{exc.message} Did you mean {close[0]}?", ctx) from exc

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the names of commands and the group's options, without importing commands."""
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        items = [CompletionItem(name, help=COMMANDS[name]) for name in names]
        return items + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a table of commands for each group, without importing them."""
        width = max(map(len, COMMANDS))
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), line) for name, line in group.items()])


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]}, epilog=exits_text(CONTRACT)
)
@click.version_option(package_name="dra-reconciler", prog_name="dra-reconciler")
def main() -> None:
    """Allocate devices on Kubernetes, for a cluster or for manifest files.

    \b
    Examples:
      dra-reconciler demo
      dra-reconciler explain -A
    """


@main.result_callback()
def _end(_result: object) -> None:
    exit_if_refused()


def kubectl_plugin() -> None:
    """Run as `kubectl dra-reconciler`: the same commands, with this name in the help."""
    main(prog_name="kubectl dra-reconciler")


def kubectl_complete() -> None:
    """Complete `kubectl dra-reconciler ...` for kubectl."""
    from reconciler.cli.completion import answer_kubectl  # noqa: PLC0415 - no command needs it

    answer_kubectl(main)
