"""Whom a kubeconfig says to act as."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.cluster.target import choose_target, impersonation_headers
from reconciler.errors import Rejected


def test_each_field_becomes_the_headers_that_the_server_knows():
    values = {
        "token": "t",
        "as": "alice",
        "as-uid": "7",
        "as-groups": ["a", "b"],
        "as-user-extra": {"example.com/Scope": ["x", "y"]},
    }
    assert impersonation_headers("u", values) == [
        ("Impersonate-User", "alice"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-example.com%2FScope", "x"),
        ("Impersonate-Extra-example.com%2FScope", "y"),
    ]
    assert (
        impersonation_headers("u", {"token": "t"})
        == impersonation_headers("u", {"as": "", "as-groups": None})
        == []
    )


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"as-groups": ["system:masters"]}, "as is not set"),
        ({"as-uid": "7"}, "as is not set"),
        ({"as": ["alice"]}, "as is not text"),
        ({"as": "alice", "as-groups": "a"}, "as-groups is not a list"),
        ({"as": "alice", "as-groups": [7]}, "as-groups is not text"),
        ({"as": "alice", "as-groups": [""]}, "is empty or not printable"),
        ({"as": "alice\r\nImpersonate-Group: b"}, "is empty or not printable"),
        ({"as": "alice", "as-user-extra": ["a"]}, "as-user-extra is not a map"),
    ],
)
def test_what_cannot_be_sent_is_refused_and_nothing_runs_with_other_rights(values: dict[str, Any], said: str):
    with pytest.raises(Rejected, match=said) as refused:
        impersonation_headers("admin", values)
    assert str(refused.value).startswith("cannot reach a cluster: user admin of the kubeconfig: as")


def test_a_context_says_as_whom_it_acts(tmp_path: Path):
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "https://host"}}],
        "users": [{"name": "admin", "user": {"token": "t", "as": "alice"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "admin"}}],
        "current-context": "x",
    }
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(config))
    target = choose_target(server=None, kubeconfig=str(path), context=None)
    assert target.impersonation() == [("Impersonate-User", "alice")]
    assert str(target) == "https://host (context x, as alice)"
