"""The tables of docs/versions.md: `python -m docs.version_tables`.

They are what the program itself uses: its tables of kinds, of feature gates, and of fields that it ignores.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from reconciler.api.objects.semantics import GATES
from reconciler.api.versions.ignored import UNUSED
from reconciler.api.versions.kinds import KINDS

PAGE = Path(__file__).parent / "versions.md"


def page() -> str:
    """The page with its tables as the program has them now."""
    text = PAGE.read_text("utf-8")
    for name, made in (("kinds", _kinds()), ("gates", _gates()), ("unused", _unused())):
        begin, end = f"<!-- {name}: made by `python -m docs.version_tables` -->\n\n", "\n<!-- end -->\n"
        before, found, rest = text.partition(begin)
        if not found:
            raise ValueError(f"{PAGE} has no line {begin.strip()!r}")
        text = before + begin + "\n".join(made) + "\n" + end + rest.partition(end)[2]
    return text


def _kinds() -> Iterator[str]:
    yield from ("| Kinds | Versions, the best first | Only in files |", "|---|---|---|")
    rows: dict[tuple[str, str, str], list[str]] = {}
    for kind in KINDS.values():
        if kind.in_files and kind.group.endswith(".k8s.io"):
            row = (kind.group, ", ".join(kind.versions), ", ".join(kind.only_in_files) or "-")
            rows.setdefault(row, []).append(kind.name)
    for (group, versions, only), names in rows.items():
        yield f"| {', '.join(names)} of {group} | {versions} | {only} |"


def _unused() -> Iterator[str]:
    for model, fields in UNUSED.items():
        for field, remark in fields.items():
            yield f"- `{field}` of {model.__name__}: {remark}"


def _gates() -> Iterator[str]:
    alike: dict[str, list[str]] = {}
    for name, gate in sorted(GATES.items()):
        if gate.needs_no_server:
            when = "always (its fields are also read from annotations)"
        elif gate.is_preview:
            when = "if you enable it, a preview of 1.38"
        elif gate.shown_by:
            when = f"if the server serves {gate.shown_by}"
        elif gate.on_since is None:
            when = "if you enable it"
        else:
            when = f"since 1.{gate.on_since}"
        alike.setdefault(when, []).append(name)
    yield from (f"- {when}: {', '.join(names)}" for when, names in sorted(alike.items()))


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), "utf-8")
    sys.stdout.write(f"wrote {PAGE.relative_to(Path.cwd())}\n")


if __name__ == "__main__":
    main()
