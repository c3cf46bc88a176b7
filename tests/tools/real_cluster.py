"""kubectl on a cluster that somebody lent us by name."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from tests.tools.patience import PATIENCE

CONTEXT = "DRA_RECONCILER_TEST_CONTEXT"


@dataclass
class Kubectl:
    """Runs kubectl in one context."""

    context: str

    def run(self, *words: str, given: Any = None) -> subprocess.CompletedProcess[str]:
        """Whatever the outcome; `given` goes to standard input as JSON."""
        text = json.dumps(given) if given is not None else None
        command = ["kubectl", "--context", self.context, *words]
        return subprocess.run(
            command, input=text, capture_output=True, text=True, check=False, timeout=PATIENCE
        )

    def __call__(self, *words: str, given: Any = None) -> str:
        done = self.run(*words, given=given)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
        return done.stdout

    def until_printed(self, *words: str, given: Any = None) -> str:
        """What a command prints that prints nothing until a policy is in effect."""
        end = time.monotonic() + PATIENCE
        while not (printed := self(*words, given=given)):
            assert time.monotonic() < end, f"{' '.join(words)}: has printed nothing"
        return printed

    def until_refused(self, words: Callable[[int], Sequence[str]]) -> str:
        """What is said when a request is refused that may pass until a policy is in effect.

        `words` gets the number of the attempt: what changes nothing is never refused.
        """
        end = time.monotonic() + PATIENCE
        for attempt in count():
            done = self.run(*words(attempt))
            if done.returncode:
                return done.stderr
            if time.monotonic() > end:
                break
        raise AssertionError(f"{' '.join(words(0))}: was never refused")


def lent() -> Kubectl:
    """The cluster to try things on. Skips where nobody names one."""
    context = os.environ.get(CONTEXT)
    if not context:
        pytest.skip(f"installs policies: name a context of KUBECONFIG that may be used for it in {CONTEXT}")
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    return Kubectl(context)
