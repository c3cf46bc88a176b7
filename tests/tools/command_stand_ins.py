"""What stands for the placeholders of the pages, and which commands are not run, and why not."""

from collections.abc import Mapping

STAND_INS: Mapping[str, str] = {
    "[NAMESPACE/]CLAIM": "science/torus-half",
    "NAMESPACE/CLAIM": "inference/vision",
    "FILE|DIR": "manifests",
    "--kubeconfig FILE": "--kubeconfig kubeconfig",
    "logs FILE": "logs run.log",
    "--slow 50ms": "--slow 0ms",
    "replay JOURNAL": "replay journal",
    "/var/lib/dra-reconciler/journal": "journal",
    "resourceclaim NAME": "resourceclaim -n inference vision",
    "pod NAME": "pod -n training trainer",
    "namespace NAME": "namespace training",
    "http://127.0.0.1:8001": "SERVER",
    "--port 8001": "--port 0",
    "node-17": "h100-0",
    "dra-reconciler COMMAND": "dra-reconciler allocate",
}
"""Text of a page -> what is typed in its place; SERVER and DECISION are known when they are there.

Files and folders are as the pages call them, in a folder that `workspace` fills."""

_CLUSTER = "needs what only a real cluster has: "
NOT_RUN: Mapping[str, str] = {
    "make ": "works on this very checkout; CI runs test and lint, another test the demonstration",
    "source .venv/bin/activate": "changes the shell that types it; the other commands run from that folder",
    "python -m tests.conformance": "CI runs it where the recorded answers are",
    "python -m reconciler.": "another test compares the page with what it prints",
    "python -m docs.pictures": "another test compares the pictures with what it draws",
    "python -m perf run": "takes as long as a measurement does; tests/perf runs a small one",
    "python -m tests.tools.fuzz": "needs a fuzzer that is no dependency, and runs for as long as it is let",
    "kubectl logs": _CLUSTER + "logs of pods",
    "kubectl proxy": _CLUSTER + "runs until it is ended, and has nothing to do with us",
    "kubectl -n dra-reconciler port-forward": _CLUSTER + "a kubelet",
    "kubectl apply -k deploy/": "tests/deploy checks these manifests, object by object",
    "dra-reconciler run --leader-elect": "waits as long as a Lease may hold; tests/election runs replicas",
}
"""Beginning of a command -> why no test types it"""
