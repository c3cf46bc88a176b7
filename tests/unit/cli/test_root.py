"""The root of the command line."""

import click
import pytest
from click.testing import CliRunner

from reconciler.cli import COMMANDS, main


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_every_command(flag: str):
    result = CliRunner().invoke(main, [flag])
    assert result.exit_code == 0
    for name, line in COMMANDS.items():
        assert f"{name} " in result.stdout
        assert line in " ".join(result.stdout.split())


def test_the_version_is_printed():
    result = CliRunner().invoke(main, ["--version"])
    assert result.stdout.startswith("dra-reconciler, version ")


def test_an_unknown_command_is_wrong_usage():
    result = CliRunner().invoke(main, ["frobnicate"])
    assert result.exit_code == 2
    assert "No such command 'frobnicate'" in result.stderr


def test_an_unknown_command_is_not_guessed():
    result = CliRunner().invoke(main, ["frobnicate"])
    assert "Did you mean" not in result.stderr


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help(name: str):
    result = CliRunner().invoke(main, [name, "--help"])
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: main {name}")


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_cluster_is_the_default_without_files_where_help_says_so(name: str):
    command = main.get_command(click.Context(main), name)
    assert command is not None
    options = {one.opts[0]: one for one in command.params if isinstance(one, click.Option)}
    if "--cluster" in options:
        files = options.get("-f")
        said = "the default without -f" in str(options["--cluster"].help)
        assert said == (files is not None and not files.required)
