"""The root of the command line, wrong uses of commands, and errors that name what to do."""

import gzip
import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from reconciler.cli import COMMANDS, GROUPS, main
from reconciler.cli.exits import Exit, NoAnswer, Unreachable, errors_as, exit_on_errors
from reconciler.cli.help import AdvancedOption
from reconciler.errors import Rejected, Retry
from tests.tools.checkout import DOCS
from tests.tools.short_manifests import CLASS, claim, gpus, together


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
    assert "Did you mean" not in result.stderr


NODE = "{{apiVersion: v1, kind: Node, metadata: {{name: {}}}}}\n"
HELD = claim("hold") + (
    "status: {allocation: {devices: {results: "
    "[{request: gpu, driver: gpu.example.com, pool: n1, device: gpu-0}]}}}\n"
)


def line(name: str) -> str:
    fields = {"timestamp": "2026-01-01T00:00:00Z", "level": "info", "event": "claim pending"}
    return json.dumps({**fields, "claims": [name], "reason": "DevicesInUse"}) + "\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "all.yaml").write_text(together(CLASS, gpus("n1", 1), claim("train"), claim("test")))
    (tmp_path / "empty.yaml").touch()
    (tmp_path / "empty.jsonl.gz").write_bytes(gzip.compress(b""))
    (tmp_path / "comments.yaml").write_text("# nothing\n---\n")
    (tmp_path / "none").mkdir()
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "a.yaml").touch()
    (tmp_path / "nodes.yaml").write_text(together(*(NODE.format(name) for name in "abcd")))
    (tmp_path / "held.yaml").write_text(together(CLASS, gpus("n1", 1), HELD))
    (tmp_path / "run.log").write_text(
        "".join(map(line, ("default/c", "default/b", "x/d", "default/visions")))
    )
    (tmp_path / "random.yaml").write_bytes(b"\xbc\x00\xff" * 100)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("explain other/train -f all.yaml", 2, "there is no claim other/train; did you mean default/train?"),
        ("explain trian -f all.yaml", 2, "there is no claim default/trian; did you mean default/train?"),
        ("explain a/b/c -f all.yaml", 2, "'a/b/c' is not a name: write NAME, NAMESPACE/NAME or TYPE/NAME"),
        ("explain default/ -f all.yaml", 2, "write NAME, NAMESPACE/NAME"),
        ("whatif -f all.yaml --drain n2", 2, "there is no node n2; known nodes (1): n1"),
        ("whatif -f all.yaml --drain other", 2, "there is no node other; known nodes (1): n1\n"),
        ("whatif -f nodes.yaml -f all.yaml --drain zz", 2, "known nodes (4): a, b, c and 1 more\n"),
        (
            "whatif -f held.yaml --drain n1 --without x/hold",
            2,
            "there is no claim x/hold; did you mean default/hold?",
        ),
        ("whatif -f held.yaml --drain n1 --without other", 2, "known allocated claims (1): default/hold\n"),
        ("top -f all.yaml --node zz", 2, "there is no node zz; known nodes (1): n1\n"),
        ("top -f all.yaml --node N1", 2, "there is no node N1; did you mean n1?"),
        (
            "top -f all.yaml --driver gpu.exmple.com",
            2,
            "no driver gpu.exmple.com; did you mean gpu.example.com?",
        ),
        (
            "top -f all.yaml --koordinator --by node --node zz",
            2,
            "there is no node zz; known nodes (0): none\n",
        ),
        ("top -f all.yaml --koordinator --driver gpus", 2, "there is no type gpus; did you mean gpu?"),
        (
            "logs run.log --claim vision",
            1,
            "no line is about claim default/vision; did you mean default/visions?",
        ),
        (
            "logs run.log --claim zzz",
            1,
            "known claims (4): default/b, default/c, default/visions and 1 more\n",
        ),
        ("logs run.log --claim d", 1, "no line is about claim default/d; did you mean x/d?"),
        (
            "logs run.log --reason DeviceInUse",
            1,
            "no line has the reason DeviceInUse; did you mean DevicesInUse?",
        ),
        (
            "logs run.log --claim x/d --reason Other",
            1,
            "no line has the reason Other; known reasons (1): DevicesInUse",
        ),
        ("logs run.log --claim x/d --slow 1h", 1, "no line matches all options"),
        ("logs empty.yaml --claim x", 2, "is this the log of `run`, as JSON?"),
        ("alocate -f all.yaml", 2, "No such command 'alocate'. Did you mean allocate?"),
        ("whatIf -f all.yaml", 2, "No such command 'whatIf'. Did you mean whatif?"),
        ("replay empty.jsonl.gz", 2, "empty.jsonl.gz: not a journal of format 2"),
        ("replay all.yaml", 2, "journal all.yaml: Not a gzipped file"),
        ("allocate -f empty.yaml", 2, "Error: empty.yaml is empty\n"),
        ("doctor -f empty.yaml", 2, "Error: empty.yaml is empty\n"),
        ("allocate -f comments.yaml", 2, "Error: comments.yaml has no object\n"),
        ("convert -f none", 2, "Error: none has no file that ends in .yaml, .yml, .json\n"),
        ("allocate -f some", 2, "Error: some has no object: 1 file of it is empty\n"),
        ("allocate -f -", 2, "Error: standard input is empty\n"),
        ("convert -f random.yaml", 2, "refused: random.yaml:1: is not UTF-8 text"),
    ],
)
def test_the_error_names_the_problem_and_the_remedy(arguments: str, code: int, said: str):
    result = CliRunner().invoke(main, arguments.split())
    assert (result.exit_code, said in result.output) == (code, True), result.output


@pytest.mark.parametrize("command", [("modes",), ("doctor",), ("whatif", "--drain", "n")], ids=str)
def test_without_files_a_cluster_is_read(command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KUBECONFIG", "/nosuch/config")
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 3
    assert "Error: cannot reach a cluster: no kubeconfig at /nosuch/config" in result.stderr


def test_fit_does_not_answer_for_a_fleet_that_was_not_named():
    result = CliRunner().invoke(main, ["fit", "-f", str(DOCS / "examples" / "fit-request.yaml")])
    assert result.exit_code == 2
    assert "No ResourceSlice was read: add --cluster, or more files with -f." in result.stderr


def test_each_error_of_a_group_is_printed_and_the_command_fails(capsys: pytest.CaptureFixture[str]):
    nested = ExceptionGroup(
        "tasks", [OSError("no route"), ExceptionGroup("more", [Rejected("no such gate")])]
    )
    with pytest.raises(SystemExit) as ended, exit_on_errors(Exit.UNREACHABLE):
        raise nested
    assert ended.value.code == Exit.UNREACHABLE
    assert capsys.readouterr().err == "Error: no route\nError: no such gate\n"


def test_internal_errors_are_not_reported_as_errors_of_the_cluster(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(KeyError), exit_on_errors(Exit.UNREACHABLE):
        raise KeyError("a defect")
    with pytest.raises(ZeroDivisionError), errors_as(NoAnswer):
        raise ZeroDivisionError
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("error", "code"), [(Unreachable, Exit.UNREACHABLE), (NoAnswer, Exit.USAGE)], ids=["cluster", "file"]
)
def test_an_unreachable_server_ends_a_command(error: type[NoAnswer], code: Exit):
    with pytest.raises(error, match="away") as ended, errors_as(error):
        raise Retry("away")
    assert ended.value.exit_code == code


# -- What `--help` and `--help-all` show.


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
    params = [one for one in command_of(name).params if isinstance(one, click.Option) and not one.hidden]
    advanced = {one.opts[-1] for one in params if isinstance(one, AdvancedOption)}
    every = {one.opts[-1] for one in params} | {"--help"}
    assert flags(shown(name, "--help")) & every == every - advanced
    assert ("--help-all" in every) == bool(advanced)
    if advanced:
        assert flags(shown(name, "--help-all")) >= every


@pytest.mark.parametrize("name", ["run", "allocate", "explain", "whatif"])
def test_engine_options_are_advanced(name: str):
    engine = {"--policy", "--steps", "--semantics", "--feature-gates", "--group-mode"}
    advanced = {one.opts[-1] for one in command_of(name).params if isinstance(one, AdvancedOption)}
    assert engine | {"--exclusion-scope"} <= advanced


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_short(name: str):
    text = shown(name, "--help")
    assert text.startswith(f"Usage: main {name}")
    assert len(text.splitlines()) <= (60 if name == "run" else 75)


@pytest.mark.parametrize("flag", ["--log-format=json", "--no-earlier-leader", "--policy-seed=1", "--traces"])
def test_a_flag_of_run_that_was_removed_says_what_to_do(flag: str):
    done = CliRunner().invoke(main, ["run", flag])
    assert done.exit_code == 2
    assert f"{flag.partition('=')[0]} was removed in 0.4.0: " in done.output


def test_an_advanced_option_is_taken_and_completed():
    command = command_of("allocate")
    names = [one.value for one in command.shell_complete(click.Context(command), "--pol")]
    assert names == ["--policy", "--policy-seed"]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_which_options_can_be_repeated_and_where_a_cluster_is_the_default(name: str):
    params = [one for one in command_of(name).params if isinstance(one, click.Option)]
    for option in params:
        if option.help:
            assert ("can be repeated" in option.help.lower()) == option.multiple, option.name
    options = {one.opts[0]: one for one in params}
    if "--cluster" in options:
        files = options.get("-f")
        said = "the default without -f" in str(options["--cluster"].help)
        assert said == (files is not None and not files.required)
