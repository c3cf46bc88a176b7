"""Errors that end a command: what is printed, and which exit code follows."""

import click
import pytest

from reconciler.cli.common.exits import Exit, NoAnswer, errors_as, exit_on_errors
from reconciler.errors import Rejected, Retry


def test_each_error_of_a_group_is_printed_and_the_command_fails(capsys: pytest.CaptureFixture[str]):
    nested = ExceptionGroup(
        "tasks", [OSError("no route"), ExceptionGroup("more", [Rejected("no such gate")])]
    )
    with pytest.raises(SystemExit) as ended, exit_on_errors():
        raise nested
    assert ended.value.code == Exit.FAILED
    assert capsys.readouterr().err == "error: no route\nerror: no such gate\n"


def test_a_defect_is_not_taken_for_an_error_of_the_cluster(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(KeyError), exit_on_errors():
        raise KeyError("a defect")
    with pytest.raises(ZeroDivisionError), errors_as(NoAnswer):
        raise ZeroDivisionError
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("error", "code"), [(click.ClickException, Exit.FAILED), (NoAnswer, Exit.USAGE)], ids=["look", "question"]
)
def test_a_server_that_is_away_ends_a_command_as_it_says(error: type[click.ClickException], code: Exit):
    with pytest.raises(error, match="away") as ended, errors_as(error):
        raise Retry("away")
    assert ended.value.exit_code == code
