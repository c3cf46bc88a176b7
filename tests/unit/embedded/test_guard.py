"""Tokens and roles: authentication, authorization, and the responses to refused requests."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.validation.bodies import decode_json, encode
from reconciler.embedded import ApiServer, Request, Response
from reconciler.embedded.accounts import AccessRequest, Account, Roles, account, read_tokens, service_account
from reconciler.embedded.guard import Guard
from reconciler.errors import Malformed
from tests.tools.driving import CLAIMS, MERGE, PODS

TOKENS = read_tokens('r,reader,1\nm,boss,2,"system:masters"\n# none\n\ns,setter,3,a\n', source="t")
ROLES = """
kind: ClusterRole
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: read}
rules:
- {apiGroups: [resource.k8s.io], resources: [resourceclaims], verbs: [get, list]}
- {nonResourceURLs: [/metrics, /debug/*], verbs: [get]}
---
kind: ClusterRoleBinding
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: read}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: read}
subjects: [{kind: User, name: reader}, {kind: ServiceAccount, name: sa, namespace: kube-system}]
---
kind: Role
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: set, namespace: default}
rules:
- {apiGroups: [resource.k8s.io], resources: ["*/status"], verbs: [patch]}
- {apiGroups: [""], resources: [pods], verbs: [get], resourceNames: [mine]}
---
kind: RoleBinding
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: set, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: set}
subjects: [{kind: Group, name: a}]
"""
GUARD = Guard(TOKENS, Roles.read(yaml.safe_load_all(ROLES)))
CLAIM = {"metadata": {"name": "c"}, "spec": {}}
ALLOCATION = {"devices": {"results": [{"request": "r", "driver": "d.x", "pool": "p", "device": "e"}]}}


def asked(
    api: ApiServer, token: str, method: str, path: str, body: Any = None, media: str = "application/json"
) -> Any:
    headers = {"Content-Type": media, **({"Authorization": f"Bearer {token}"} if token else {})}
    answer = api.handle(Request(method, path, {}, headers, encode(body) if body is not None else b""))
    assert isinstance(answer, Response)
    return answer.status, decode_json(answer.body) if answer.body[:1] == b"{" else answer.body.decode()


@pytest.fixture
def api() -> ApiServer:
    api = ApiServer(guard=GUARD)
    request = {"name": "r", "exactly": {"deviceClassName": "k"}}
    spec = {"devices": {"requests": [request]}}
    metadata = {"name": "c", "namespace": "default"}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec}
    api.load([claim])
    return api


@pytest.mark.parametrize(
    ("token", "method", "path", "code"),
    [
        pytest.param("x", "GET", CLAIMS, 401, id="a token that nobody has"),
        pytest.param("x", "GET", "/healthz", 401, id="even where all may go"),
        pytest.param("", "GET", "/healthz", 200, id="health"),
        pytest.param("", "GET", "/version", 200, id="the version"),
        pytest.param("", "GET", "/apis", 403, id="discovery without a token"),
        pytest.param("r", "GET", "/apis", 200, id="discovery"),
        pytest.param("", "GET", CLAIMS, 403, id="claims without a token"),
        pytest.param("r", "GET", CLAIMS, 200, id="a role"),
        pytest.param("r", "GET", f"{CLAIMS}/c", 200, id="a role, one object"),
        pytest.param("r", "GET", PODS, 403, id="another kind"),
        pytest.param("r", "DELETE", f"{CLAIMS}/c", 403, id="another verb"),
        pytest.param("s", "GET", CLAIMS, 403, id="a role for a part of it"),
        pytest.param("s", "GET", f"{PODS}/mine", 404, id="a name that is allowed"),
        pytest.param("s", "GET", f"{PODS}/yours", 403, id="a name that is not"),
        pytest.param("s", "GET", "/api/v1/namespaces/kube-system/pods/mine", 403, id="another namespace"),
        pytest.param("m", "DELETE", f"{CLAIMS}/c", 200, id="masters"),
    ],
)
def test_who_may_do_what(api: ApiServer, token: str, method: str, path: str, code: int):
    assert asked(api, token, method, path)[0] == code


def test_a_watch_wants_the_verb_watch(api: ApiServer):
    answer = api.handle(Request("GET", CLAIMS, {"watch": "true"}, {"Authorization": "Bearer r"}))
    assert isinstance(answer, Response)
    assert answer.status == 403


@pytest.mark.parametrize("verb", ["list", "watch"])
@pytest.mark.parametrize(
    ("fields", "allowed"),
    [
        ("metadata.name=mine", True),
        ("spec.nodeName=n,metadata.name==mine", True),
        ("metadata.name=yours", False),
        ("metadata.name!=mine", False),
        ("spec.nodeName=mine", False),
        ("", False),
    ],
)
def test_a_right_on_one_object_covers_a_list_of_that_object_alone(fields: str, verb: str, allowed: bool):
    roles = ROLES.replace("verbs: [get], resourceNames", "verbs: [list, watch], resourceNames")
    api = ApiServer(guard=Guard(TOKENS, Roles.read(yaml.safe_load_all(roles))))
    query = {"fieldSelector": fields, **({"watch": "true"} if verb == "watch" else {})}
    answer = api.handle(Request("GET", PODS, query, {"Authorization": "Bearer s"}))
    assert (getattr(answer, "status", 200) == 200) is allowed


def test_a_refusal_says_who_may_not_do_what(api: ApiServer):
    _, body = asked(api, "s", "GET", f"{CLAIMS}/c")
    assert body["message"] == (
        'resourceclaims.resource.k8s.io "c" is forbidden: User "setter" cannot get resource "resourceclaims" '
        'in API group "resource.k8s.io" in the namespace "default"'
    )
    assert body["details"] == {"name": "c", "group": "resource.k8s.io", "kind": "resourceclaims"}


def test_an_allocation_wants_the_right_to_bind(api: ApiServer):
    patch = {"status": {"allocation": ALLOCATION}}
    code, body = asked(api, "s", "PATCH", f"{CLAIMS}/c/status", patch, MERGE)
    assert (code, [cause["field"] for cause in body["details"]["causes"]]) == (422, ["status.allocation"])
    assert asked(api, "m", "PATCH", f"{CLAIMS}/c/status", patch, MERGE)[0] == 200
    same = {"status": {"allocation": ALLOCATION}}
    assert asked(api, "s", "PATCH", f"{CLAIMS}/c/status", same, MERGE)[0] == 200


def test_a_token_can_be_reviewed(api: ApiServer):
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    assert asked(api, "r", "POST", path, {"spec": {"token": "s"}})[0] == 403
    code, body = asked(api, "m", "POST", path, {"spec": {"token": "s"}})
    assert (code, body["status"]["user"]["username"]) == (201, "setter")
    assert "s" not in str(body["spec"])
    assert not asked(api, "m", "POST", path, {"spec": {"token": "none"}})[1]["status"].get("authenticated")


@pytest.mark.parametrize(("path", "allowed"), [("/metrics", True), ("/debug/x", True), ("/whatif", False)])
def test_access_can_be_reviewed(api: ApiServer, path: str, allowed: bool):
    spec = {"user": "reader", "groups": [], "nonResourceAttributes": {"path": path, "verb": "get"}}
    _, body = asked(api, "m", "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
    assert body["status"]["allowed"] is allowed


SELF = {
    "access": "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "rules": "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
    "user": "/apis/authentication.k8s.io/v1/selfsubjectreviews",
}


@pytest.mark.parametrize(
    ("token", "verb", "allowed"), [("r", "list", True), ("r", "delete", False), ("m", "delete", True)]
)
def test_the_sender_can_ask_for_its_own_access(api: ApiServer, token: str, verb: str, allowed: bool):
    """As `kubectl auth can-i` does."""
    what = {"verb": verb, "group": "resource.k8s.io", "resource": "resourceclaims", "namespace": "default"}
    code, body = asked(api, token, "POST", SELF["access"], {"spec": {"resourceAttributes": what}})
    assert (code, body["status"]["allowed"]) == (201, allowed)


def test_the_sender_can_list_its_own_rules(api: ApiServer):
    """As `kubectl auth can-i --list` does. Rules of other namespaces are not listed."""

    def rules(token: str, namespace: str) -> tuple[list[Any], list[Any]]:
        status = asked(api, token, "POST", SELF["rules"], {"spec": {"namespace": namespace}})[1]["status"]
        asking, given = status["resourceRules"][:3], status["resourceRules"][3:]
        assert [rule["verbs"] for rule in asking] == [["create"]] * 3
        return given, status["nonResourceRules"]

    given, paths = rules("r", "default")
    assert given == [
        {"verbs": ["get", "list"], "apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"]}
    ]
    assert paths[1:] == [{"verbs": ["get"], "nonResourceURLs": ["/metrics", "/debug/*"]}]
    mine = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["mine"]}
    assert mine in rules("s", "default")[0]
    assert rules("s", "other")[0] == []
    assert rules("m", "other")[0] == [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]


def test_every_listed_path_is_allowed(api: ApiServer):
    """The list of rules and the check of a request agree."""
    _, body = asked(api, "r", "POST", SELF["rules"], {"spec": {}})
    for rule in body["status"]["nonResourceRules"]:
        for path in rule["nonResourceURLs"]:
            assert GUARD.allows(TOKENS["r"], AccessRequest("get", path=path.replace("*", "x")))


def test_the_sender_can_ask_who_it_is(api: ApiServer):
    """As `kubectl auth whoami` does."""
    _, body = asked(api, "s", "POST", SELF["user"], {})
    assert body["status"]["userInfo"] == {"username": "setter", "groups": ["a", "system:authenticated"]}
    assert asked(api, "", "POST", SELF["user"], {})[0] == 403


def test_without_tokens_everybody_may_do_everything():
    api = ApiServer()
    assert asked(api, "", "POST", SELF["access"], {"spec": {}})[1]["status"] == {"allowed": True}
    groups = ["system:authenticated", "system:masters"]
    who = {"username": "system:unsecured", "groups": groups}
    assert asked(api, "", "POST", SELF["user"], {})[1]["status"] == {"userInfo": who}
    rules = asked(api, "", "POST", SELF["rules"], {"spec": {}})[1]["status"]
    assert rules["nonResourceRules"] == [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
    tokens = "/apis/authentication.k8s.io/v1/tokenreviews"
    verdict = asked(api, "", "POST", tokens, {"spec": {"token": "x"}})[1]["status"]
    assert "authenticated" not in verdict


ACCESS_IN_PROTOBUF = (
    b"k8s\x00\n2\n\x17authorization.k8s.io/v1\x12\x17SelfSubjectAccessReview\x12C"
    b'\n\x10\n\x00\x12\x00\x1a\x00"\x00*\x002\x008\x00B\x00'
    b'\x12%\n#\n\x0bkube-system\x12\x03get\x1a\x00"\x00*\x04pods2\x00:\x03log\x1a\x08\x08\x00'
    b'\x12\x00\x1a\x00 \x00\x1a\x00"\x00'
)
"""What `kubectl auth can-i get pods/log -n kube-system` of 1.36 sends"""


@pytest.mark.parametrize(("namespace", "allowed"), [(b"kube-system", False), (b"the-default", True)])
def test_newer_kubectl_asks_in_protobuf(namespace: bytes, allowed: bool):
    roles = ROLES.replace("namespace: default", "namespace: the-default").replace("[mine]", "[log]")
    api = ApiServer(guard=Guard(TOKENS, Roles.read(yaml.safe_load_all(roles))))
    headers = {"Content-Type": "application/vnd.kubernetes.protobuf", "Authorization": "Bearer s"}
    body = ACCESS_IN_PROTOBUF.replace(b"kube-system", namespace)
    answer = api.handle(Request("POST", SELF["access"], {}, headers, body))
    assert isinstance(answer, Response)
    assert decode_json(answer.body)["status"] == {"allowed": allowed}


def test_a_service_account_has_its_groups():
    assert service_account("ns", "sa").groups >= {"system:serviceaccounts", "system:serviceaccounts:ns"}
    assert GUARD.allows(
        service_account("kube-system", "sa"),
        AccessRequest("get", "resource.k8s.io", "resourceclaims", "any", "c"),
    )


@pytest.mark.parametrize("line", ["token", "token,user", ",user,1", "token,,1"])
def test_a_bad_line_of_tokens_is_named_but_not_shown(line: str):
    with pytest.raises(Malformed, match=r"^file:2: must be") as caught:
        read_tokens(f"good,user,1\n{line}\n", source="file")
    assert "token,user\n" not in str(caught.value)


def test_a_binding_without_its_role_is_refused():
    (binding,) = [one for one in yaml.safe_load_all(ROLES) if one["kind"] == "RoleBinding"]
    with pytest.raises(Malformed, match="there is no Role set"):
        Roles.read([binding])


NAMES = st.sampled_from(["a", "b", "*"])


@given(rules=st.lists(st.tuples(NAMES, NAMES, NAMES)), verb=NAMES, group=NAMES, resource=NAMES)
def test_rules_only_add(rules: list[tuple[str, str, str]], verb: str, group: str, resource: str):
    """Compared with the definition: one rule names all three, or `*` in their place."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "r"},
        "rules": [{"verbs": [v], "apiGroups": [g], "resources": [r]} for v, g, r in rules],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "User", "name": "u"}],
    }
    wanted = (verb, group, resource)
    expected = any(all(a in ("*", b) for a, b in zip(rule, wanted, strict=True)) for rule in rules)
    found = Roles.read([role, binding])
    assert found.allows(account("u"), AccessRequest(*wanted)) == expected
    assert not found.allows(Account("v", frozenset()), AccessRequest(*wanted))
