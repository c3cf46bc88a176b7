"""Text for terminals."""

import re

from rich.cells import cell_len

_WORDS = re.compile(r"( *)([^ ]+)")
_DRA = "resource.k8s.io"
_GROUPS = {
    "Device": "scheduling.koordinator.sh",
    "DeviceClass": _DRA,
    "DeviceTaintRule": _DRA,
    "ResourceClaim": _DRA,
    "ResourceClaimTemplate": _DRA,
    "ResourceSlice": _DRA,
}
"""Kind -> API group; other kinds are of the core group"""


def plain(text: str) -> str:
    """Escape control characters and characters that cannot be encoded."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def counted(count: int, noun: str) -> str:
    """`1 claim`, `2 claims`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def wrapped(text: str, width: int, *, hanging: int = 0) -> list[str]:
    """The text in lines of at most `width` columns, wrapped between words; longer words stay whole.

    Later lines are indented by `hanging` columns. There is at least one line. Several blanks within a line
    stay: they may be part of an expression.
    """
    if "\n" not in text and cell_len(text) <= width:
        return [text.rstrip()]
    lines = []
    for part in text.split("\n"):
        line, used = "", 0
        for blanks, word in _WORDS.findall(part):
            more = len(blanks) + cell_len(word)
            if line.strip() and used + more > width:
                lines.append(line)
                line, used = " " * hanging + word, hanging + cell_len(word)
            else:
                line, used = line + blanks + word, used + more
        lines.append(line)
    return lines


def object_name(kind: str, name: str) -> str:
    """`pod/p` or `resourceclaim.resource.k8s.io/c`, as `kubectl get -o name`: without a namespace."""
    group = _GROUPS.get(kind)
    return f"{kind.lower()}{f'.{group}' if group else ''}/{name}"
