"""Errors that end a command: message and exit code."""

import click
import pytest

from reconciler.cli.exits import Exit, NoAnswer, errors_as, exit_on_errors
from reconciler.errors import Rejected, Retry


def test_each_error_of_a_group_is_printed_and_the_command_fails(capsys: pytest.CaptureFixture[str]):
    nested = ExceptionGroup(
        "tasks", [OSError("no route"), ExceptionGroup("more", [Rejected("no such gate")])]
    )
    with pytest.raises(SystemExit) as ended, exit_on_errors():
        raise nested
    assert ended.value.code == Exit.FAILED
    assert capsys.readouterr().err == "Error: no route\nError: no such gate\n"


def test_internal_errors_are_not_reported_as_errors_of_the_cluster(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(KeyError), exit_on_errors():
        raise KeyError("a defect")
    with pytest.raises(ZeroDivisionError), errors_as(NoAnswer):
        raise ZeroDivisionError
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("error", "code"), [(click.ClickException, Exit.FAILED), (NoAnswer, Exit.USAGE)], ids=["look", "question"]
)
def test_an_unreachable_server_ends_a_command(error: type[click.ClickException], code: Exit):
    with pytest.raises(error, match="away") as ended, errors_as(error):
        raise Retry("away")
    assert ended.value.exit_code == code
