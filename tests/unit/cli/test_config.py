"""With `--config`, a command decides as a controller with these settings, unless an option says otherwise."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from reconciler.cli import main
from tests.tools.short_manifests import CLASS, claim, gpus, together

SETTINGS = """\
policy: {"*": spread}
own_drivers: [gpu.example.com]
semantics: "1.36"
group_modes: {gpu.example.com: pairwise}
search_steps: 7
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.yaml").write_text(together(CLASS, gpus("a"), gpus("b"), claim("one"), claim("two")))
    (tmp_path / "settings.yaml").write_text(SETTINGS)
    return tmp_path


def nodes(*options: str) -> list[str]:
    """The nodes of the claims one and two."""
    done = CliRunner().invoke(main, ["allocate", "-f", "m.yaml", *options])
    assert done.exit_code == 0, done.output
    return [line.split()[-1] for line in done.stdout.splitlines()[1:3]]


def test_options_come_from_the_settings_and_what_is_given_wins(folder: Path):
    assert nodes() == ["a", "a"]
    assert nodes("--config", "settings.yaml") == ["a", "b"]
    assert nodes("--policy", "first-fit", "--config", "settings.yaml") == ["a", "a"]


@pytest.mark.parametrize("command", ["explain one", "whatif", "top", "capacity --pending"])
def test_each_command_that_decides_takes_them(command: str, folder: Path):
    done = CliRunner().invoke(main, [*command.split(), "-f", "m.yaml", "--config", "settings.yaml"])
    assert done.exit_code in (0, 1), done.output


def test_wrong_settings_are_named(folder: Path):
    (folder / "settings.yaml").write_text("polciy: a\n")
    done = CliRunner().invoke(main, ["allocate", "-f", "m.yaml", "--config", "settings.yaml"])
    assert done.exit_code == 2
    assert "unknown setting polciy in settings.yaml; did you mean policy?" in " ".join(done.output.split())
