"""Values for the placeholders in pages, and the commands that no test runs, with reasons."""

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
    "--pod NAMESPACE/POD": "--pod training/trainer",
    "describe pod NAME": "describe pod -n training trainer",
    "resourceclaim NAME": "resourceclaim -n inference vision",
    "pod NAME": "pod -n training trainer",
    "namespace NAME": "namespace training",
    "http://127.0.0.1:8001": "SERVER",
    "--port 8001": "--port 0",
    "node-17": "h100-0",
    "dra-reconciler COMMAND": "dra-reconciler allocate",
}
"""Text of a page -> replacement; SERVER and DECISION are known only while the test runs.

Files and folders have the names of the pages, in a folder that `workspace` fills."""

_CLUSTER = "needs a real cluster: "
NOT_RUN: Mapping[str, str] = {
    "make ": "changes this checkout; CI runs test and lint, and another test runs the demonstration",
    "source .venv/bin/activate": "changes the shell; the other commands run from that folder",
    "python -m tests.conformance": "CI runs it if the recorded answers are available",
    "python -m tests.tools.written_state": "changes this checkout; tests/whole/ha reads what it made",
    "python -m reconciler.": "another test compares the page with the output",
    "python -m docs.": "another test compares the pictures and pages",
    "python -m perf placement": "learns for hours; tests/whole/perf runs a small one",
    "python -m perf run": "is a long measurement; tests/whole/perf runs a small one",
    "kubectl logs": _CLUSTER + "logs of pods",
    "kubectl proxy": _CLUSTER + "runs until it is stopped",
    "kubectl -n dra-reconciler port-forward": _CLUSTER + "a kubelet",
    "kubectl delete -k deploy/": "tests/whole/deploy checks these manifests",
    "kubectl label namespace NAME dra-reconciler.io/rewrite-resources=true": "changes nothing here",
    "kubectl label namespace NAME dra-reconciler.io/announce-claims": "changes nothing here",
    "kubectl krew": "needs a published release",
    "kubectl label namespace NAME dra-reconciler.io/gate-pods-": "the label is on no namespace of the tests",
    "dra-reconciler release-gates -A": "would ungate pods of other pages; another test removes gates",
    "kubectl apply -k deploy/": "tests/whole/deploy checks these manifests",
    "dra-reconciler run --leader-elect": "waits for a Lease; tests/whole/ha runs replicas",
}
"""Start of a command -> why no test runs it"""
