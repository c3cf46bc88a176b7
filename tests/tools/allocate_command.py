"""`allocate` on manifests, in this process."""

from pathlib import Path

from click.testing import CliRunner, Result

from reconciler.cli import main

ALL, NO, USAGE = 0, 1, 2


def allocate(tmp_path: Path, *options: str, stdin: str | None = None, **files: str) -> Result:
    """The outcome of `allocate` on these files, all given with -f."""
    arguments = ["allocate", *options]
    for name, text in files.items():
        path = tmp_path / f"{name}.yaml"
        path.write_text(text)
        arguments += ["-f", str(path)]
    result = CliRunner().invoke(main, arguments, input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result
