"""What `--help` and `--help-all` show."""

import click
import pytest
from click.testing import CliRunner

from reconciler.cli import COMMANDS, GROUPS, main
from reconciler.cli.help import AdvancedOption


def shown(*arguments: str) -> str:
    result = CliRunner().invoke(main, [*arguments], terminal_width=80)
    assert result.exit_code == 0
    return result.stdout


def command_of(name: str) -> click.Command:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    return command


def flags(text: str) -> set[str]:
    """The options in the table of a help."""
    table = text.partition("Options:\n")[2].partition("Exit codes:")[0]
    lines = [line.strip() for line in table.splitlines() if line.startswith("  -")]
    return {word.rstrip(",") for line in lines for word in line.split() if word.startswith("-")}


def test_the_list_of_commands_is_in_groups():
    places = [
        shown("--help").index(text)
        for title, group in GROUPS.items()
        for text in (f"{title}:\n", *(f"  {name} " for name in group))
    ]
    assert places == sorted(places)
    assert len(COMMANDS) == sum(map(len, GROUPS.values()))


@pytest.mark.parametrize("name", COMMANDS)
def test_help_leaves_out_advanced_options_and_help_all_shows_all(name: str):
    params = [one for one in command_of(name).params if isinstance(one, click.Option)]
    advanced = {one.opts[-1] for one in params if isinstance(one, AdvancedOption)}
    every = {one.opts[-1] for one in params} | {"--help"}
    assert flags(shown(name, "--help")) & every == every - advanced
    assert ("--help-all" in every) == bool(advanced)
    if advanced:
        assert flags(shown(name, "--help-all")) >= every


@pytest.mark.parametrize("name", ["run", "allocate", "explain", "whatif"])
def test_engine_options_are_advanced(name: str):
    engine = {"--policy", "--policy-seed", "--steps", "--semantics", "--feature-gates", "--group-mode"}
    advanced = {one.opts[-1] for one in command_of(name).params if isinstance(one, AdvancedOption)}
    assert engine | {"--exclusion-scope"} <= advanced


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_short(name: str):
    assert len(shown(name, "--help").splitlines()) <= 75


def test_help_of_run_fits_60_lines():
    assert len(shown("run", "--help").splitlines()) <= 60


def test_an_advanced_option_is_taken_and_completed():
    command = command_of("allocate")
    names = [one.value for one in command.shell_complete(click.Context(command), "--pol")]
    assert names == ["--policy", "--policy-seed"]
