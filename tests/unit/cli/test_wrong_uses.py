"""Wrong usage: the error names the problem and the remedy."""

import gzip
from pathlib import Path

import pytest
from click.testing import CliRunner

from reconciler.cli import main
from tests.tools.short_manifests import CLASS, claim, gpus, together


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "all.yaml").write_text(together(CLASS, gpus("n1", 1), claim("train"), claim("test")))
    (tmp_path / "empty.yaml").touch()
    (tmp_path / "empty.jsonl.gz").write_bytes(gzip.compress(b""))
    (tmp_path / "random.yaml").write_bytes(b"\xbc\x00\xff" * 100)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("explain other/train -f all.yaml", 2, "there is no claim other/train; did you mean default/train?"),
        ("explain trian -f all.yaml", 2, "there is no claim default/trian; did you mean default/train?"),
        ("explain a/b/c -f all.yaml", 2, "'a/b/c' is not a claim name: write CLAIM or NAMESPACE/CLAIM"),
        ("explain default/ -f all.yaml", 2, "write CLAIM or NAMESPACE/CLAIM"),
        ("whatif -f all.yaml --drain n2", 2, "there is no node n2; known nodes (1): n1"),
        (
            "whatif -f all.yaml --without other",
            2,
            "there is no claim default/other; name it as NAMESPACE/NAME",
        ),
        ("replay empty.jsonl.gz", 2, "empty.jsonl.gz: not a journal of format 1"),
        ("replay all.yaml", 2, "journal all.yaml: Not a gzipped file"),
        ("allocate -f empty.yaml", 0, "note: no object was read"),
        ("convert -f random.yaml", 1, "refused: random.yaml:1: is not UTF-8 text"),
    ],
)
def test_the_error_names_the_problem_and_the_remedy(arguments: str, code: int, said: str):
    result = CliRunner().invoke(main, arguments.split())
    assert (result.exit_code, said in result.output) == (code, True), result.output
