"""Settings with other values for what no user can set, so that tests need not wait."""

from typing import Any, ClassVar

from reconciler.settings import Fixed, Settings


def tuned(**flags: Any) -> Settings:
    """Settings of these flags, some of which may be fields of `Fixed`; None stands for a default."""
    flags = {name: value for name, value in flags.items() if value is not None}
    given = {name: flags.pop(name) for name in Fixed._fields if name in flags}

    class Tuned(Settings):
        fixed: ClassVar[Fixed] = Fixed(**given)

    return Tuned(**flags)


def changed(settings: Settings, **flags: Any) -> Settings:
    """The same settings but for some."""
    return tuned(**{**settings.fixed._asdict(), **settings.model_dump(exclude_unset=True), **flags})
