"""Fuzzing guided by coverage: `python -m tests.tools.fuzz_with_atheris PARSER [libFuzzer's options]`.

Needs the package atheris, which is not among the dependencies: it has wheels for few machines.
"""

import sys

import atheris  # type: ignore[import-untyped]

with atheris.instrument_imports(include=["reconciler"]):
    from tests.tools.fuzzed_parsers import CORPUS, PARSERS, survives


def main() -> None:
    """Fuzz one parser until it fails, or as long as `-max_total_time` says. The corpus goes first."""
    if len(sys.argv) < 2 or sys.argv[1] not in PARSERS:
        raise SystemExit(f"say which: {', '.join(map(repr, PARSERS))}")
    name = sys.argv.pop(1)
    for text in CORPUS:
        survives(name, text)

    def one(data: bytes) -> None:
        survives(name, atheris.FuzzedDataProvider(data).ConsumeUnicode(len(data)))

    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
