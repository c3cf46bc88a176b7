"""Valid names for the API. Valid names stay; invalid ones are renamed deterministically."""

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from reconciler.api.versions.spelling import MAX_IDENTIFIER, MAX_LABEL, MAX_SUBDOMAIN, is_key

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[a-z])(?=[0-9])")


class Rename(NamedTuple):
    """One changed name."""

    kind: str
    """device, counter set, counter, attribute, capacity or slice"""
    where: str
    """The pool, driver or counter set of the name"""
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.kind} {self.before} of {self.where} is now {self.after}"


def as_label(text: str, limit: int = MAX_LABEL) -> str:
    """The DNS label closest to a name: `memorySlice0` gives memory-slice-0, `1g.5gb` gives 1g-5gb."""
    # Words are split only if capitals separate them: gpu0 stays one word.
    spaced = _WORDS.sub("-", text) if any(c.isupper() for c in text) else text
    return re.sub(r"[^a-z0-9]+", "-", spaced.lower()).strip("-")[:limit].strip("-") or "x"


def as_key(text: str, limit: int = MAX_IDENTIFIER) -> str:
    """The attribute or capacity name closest to one: `copy-engines` gives copy_engines. The domain stays."""
    domain, slash, name = text.rpartition("/")
    name = re.sub(r"[^A-Za-z0-9_]", "_", name) or "_"
    return f"{domain}{slash}{f'_{name}' if name[0].isdigit() else name}"[: len(domain) + len(slash) + limit]


def as_subdomain(text: str) -> str:
    """The DNS subdomain closest to a name."""
    return ".".join(as_label(part) for part in text.split("."))[:MAX_SUBDOMAIN].strip("-.")


def valid_names(
    names: Iterable[str], valid: Callable[[str], bool], closest: Callable[[str, int], str], limit: int
) -> dict[str, str]:
    """Name -> valid name, all distinct. Valid names stay; a number resolves a conflict of the others."""
    ordered = list(dict.fromkeys(names))
    taken = {name for name in ordered if valid(name)}
    found: dict[str, str] = {}
    for name in ordered:
        if valid(name):
            found[name] = name
            continue
        new, number = closest(name, limit), 2
        joint = "_" if valid is is_key else "-"
        while new in taken:
            suffix = f"{joint}{number}"
            new, number = closest(name, limit - len(suffix)) + suffix, number + 1
        taken.add(new)
        found[name] = new
    return found
