"""Text for terminals."""

from textwrap import TextWrapper

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

    Later lines are indented by `hanging` columns. There is at least one line.
    """
    if len(text) <= width and "\n" not in text:
        return [text.rstrip()]
    # Blanks within a line stay as they are: an expression may have a string with several.
    wrapper = TextWrapper(
        width=max(width, 1),
        subsequent_indent=" " * hanging,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )
    lines = [line.rstrip() for part in text.split("\n") for line in wrapper.wrap(part) or [""]]
    return lines or [""]


def object_name(kind: str, name: str) -> str:
    """`pod/p` or `resourceclaim.resource.k8s.io/c`, as `kubectl get -o name`: without a namespace."""
    group = _GROUPS.get(kind)
    return f"{kind.lower()}{f'.{group}' if group else ''}/{name}"
