"""Requests that are judged as another account's, for who may impersonate it."""

from typing import Any

import pytest
import yaml

from reconciler.api.validation.bodies import decode_json
from reconciler.embedded import ApiServer, Request, Response
from reconciler.embedded.accounts import Roles, read_tokens
from reconciler.embedded.guard import Guard

ROLES = """
kind: ClusterRole
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: impersonator}
rules:
- {apiGroups: [""], resources: [users], verbs: [impersonate], resourceNames: [alice, "system:anonymous"]}
- apiGroups: [""]
  resources: [groups]
  verbs: [impersonate]
  resourceNames: [team, "system:unauthenticated"]
---
kind: ClusterRoleBinding
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: impersonator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: impersonator}
subjects: [{kind: User, name: deputy}]
---
kind: Role
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: accounts, namespace: default}
rules: [{apiGroups: [""], resources: [serviceaccounts], verbs: [impersonate]}]
---
kind: RoleBinding
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: accounts, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: accounts}
subjects: [{kind: User, name: deputy}]
"""
TOKENS = read_tokens('d,deputy,1\nm,boss,2,"system:masters"\n', source="t")
USERS, ACCOUNTS = "system:authenticated", "system:serviceaccounts"
ROBOT = "system:serviceaccount:default:robot"


def who(user: str, *groups: str, token: str = "d", **headers: str) -> Any:
    """Status and body of the answer to `kubectl auth whoami`."""
    api = ApiServer(guard=Guard(TOKENS, Roles.read(yaml.safe_load_all(ROLES))))
    sent = {"Authorization": f"Bearer {token}", **({"Impersonate-User": user} if user else {}), **headers}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    answer = api.handle(Request("POST", path, {}, sent, b"{}", groups))
    assert isinstance(answer, Response)
    return answer.status, decode_json(answer.body)


@pytest.mark.parametrize(
    ("user", "groups", "wanted"),
    [
        ("", (), {"deputy": [USERS]}),
        ("alice", (), {"alice": [USERS]}),
        ("alice", ("team",), {"alice": [USERS, "team"]}),
        (ROBOT, (), {ROBOT: [USERS, ACCOUNTS, f"{ACCOUNTS}:default"]}),
        (ROBOT, ("team",), {ROBOT: [USERS, "team"]}),
    ],
)
def test_who_may_impersonate_is_taken_for_that_account(user: str, groups: Any, wanted: Any):
    status, body = who(user, *groups)
    assert status == 201
    found = body["status"]["userInfo"]
    assert {found["username"]: found["groups"]} == wanted


@pytest.mark.parametrize(
    ("user", "groups", "said"),
    [
        ("bob", (), 'users "bob" is forbidden: User "deputy" cannot impersonate resource "users" in API '
                    'group "" at the cluster scope'),
        ("alice", ("team", "system:masters"), 'groups "system:masters" is forbidden'),
        ("system:serviceaccount:other:robot", (), 'serviceaccounts "robot" is forbidden: User "deputy" '
         'cannot impersonate resource "serviceaccounts" in API group "" in the namespace "other"'),
        ("system:serviceaccount:default:", (), 'users "system:serviceaccount:default:" is forbidden'),
    ],
)  # fmt: skip
def test_nobody_is_impersonated_without_the_right(user: str, groups: Any, said: str):
    status, body = who(user, *groups)
    assert status == 403
    assert body["message"].startswith(said)


def test_masters_may_impersonate_everybody_and_have_only_the_rights_of_that_account():
    assert who("bob", "system:masters", token="m")[0] == 201
    api = ApiServer(guard=Guard(TOKENS, Roles()))
    for user, status in (("", 200), ("bob", 403)):
        sent = {"Authorization": "Bearer m", **({"Impersonate-User": user} if user else {})}
        answer = api.handle(Request("GET", "/api/v1/nodes", {}, sent))
        assert isinstance(answer, Response)
        assert answer.status == status


@pytest.mark.parametrize("groups", [(), ("system:unauthenticated",)])
def test_nobody_who_is_known_is_anonymous(groups: Any):
    """Of anonymous requests, reviews about the sender are refused."""
    status, body = who("system:anonymous", *groups)
    assert status == 403
    assert 'User "system:anonymous" cannot create' in body["message"]


def test_groups_and_uids_alone_are_refused():
    assert who("", "team")[0] == 400
    status, body = who("alice", **{"Impersonate-Uid": "7"})
    assert (status, body["message"]) == (
        400, "the header Impersonate-Uid is not served: accounts have a name and groups only",
    )  # fmt: skip


def test_an_unknown_token_impersonates_nobody():
    assert who("alice", token="x")[0] == 401
