"""Alerts, dashboard and their runbooks: the metrics they name exist, and what they ask is PromQL."""

import json
import re
from collections.abc import Iterator
from typing import Any

import kubernetes_validate
import promql_parser
import pytest
import yaml

from reconciler.api.objects.plan import Reason
from reconciler.control.decisions.declaration import PREFIX
from reconciler.operations.metrics.catalogue import CATALOGUE
from tests.tools import monitoring_kinds
from tests.tools.checkout import ROOT
from tests.tools.deployed_base import KUBERNETES, of_kind
from tests.tools.promql import Sample, evaluate, sample
from tests.tools.tuned import tuned

FOLDER = ROOT / "deploy" / "observability"
LABELS = {name: set(spec.label_names) for spec in CATALOGUE for name in spec.series}
ADDED = {"namespace", "pod", "job", "instance", "le"}
"""Labels that come from the scrape, or from histograms"""
OTHERS = {"process_cpu_seconds_total", "process_resident_memory_bytes"}
"""Metrics of Prometheus' client"""


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def alerts() -> list[Any]:
    (rule,) = documents("alerts.yaml")
    return [alert for group in rule["spec"]["groups"] for alert in group["rules"]]


def panels() -> list[Any]:
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def dashboard() -> Any:
    return json.loads((FOLDER / "dashboard.json").read_text())


def queries() -> Iterator[tuple[str, str]]:
    yield from ((alert["alert"], alert["expr"]) for alert in alerts())
    for alert in alerts():
        asked = re.findall(r'range printf "([^"]*)"', alert["annotations"]["description"])
        yield from ((f"{alert['alert']} description", expr.replace("%s", "ns")) for expr in asked)
    for panel in panels():
        yield from ((f"{panel['title']} {target['refId']}", target["expr"]) for target in panel["targets"])


def parsed(expr: str) -> Any:
    """With Grafana's variables filled in. Raises ValueError for what is no PromQL."""
    for variable, value in {"$__rate_interval": "5m", "$namespace": "ns", "$driver": ".*"}.items():
        expr = expr.replace(variable, value)
    assert "$" not in expr
    return promql_parser.parse(expr)


def selectors(node: Any) -> Iterator[Any]:
    """Every vector selector of a query."""
    found = []

    def enter(part: Any) -> bool:
        if isinstance(part, promql_parser.VectorSelector):
            found.append(part)
        return True

    promql_parser.walk(node, enter)
    return iter(found)


def grouped(text: str) -> set[str]:
    """The labels by which a query groups, or matches."""
    lists = re.findall(r"\b(?:by|on|without)\s*\(([^)]*)\)", text)
    return {name.strip() for names in lists for name in names.split(",")}


@pytest.mark.parametrize(("where", "expr"), list(queries()), ids=[where for where, _ in queries()])
def test_every_query_asks_for_metrics_and_labels_that_exist(where: str, expr: str):
    found = list(selectors(parsed(expr)))
    assert found
    known: set[str] = set()
    for selector in found:
        assert selector.name in LABELS or selector.name in OTHERS, selector.name
        labels = LABELS.get(selector.name, set()) | ADDED
        assert {matcher.name for matcher in selector.matchers.matchers} <= labels
        known |= labels
    assert grouped(expr) <= known


@pytest.mark.parametrize("query", ["sum(", "rate(x[5m]", "x{a=b}", "by (a) x"])
def test_what_is_no_promql_is_noticed(query: str):
    with pytest.raises(ValueError):  # noqa: PT011 - the parser's own words
        parsed(query)


def test_counters_are_asked_for_their_rate_and_gauges_are_not():
    kinds = {name: spec.kind for spec in CATALOGUE for name in spec.series}
    for where, expr in queries():
        for name in re.findall(rf"(?:rate|increase)\(({PREFIX}[a-z_]+)", expr):
            assert kinds[name] in ("counter", "histogram"), (where, name)


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_every_alert_says_how_bad_it_is_what_it_means_and_what_to_do(alert):
    assert alert["labels"]["severity"] in ("critical", "warning", "info")
    assert alert["annotations"]["summary"].endswith(".")
    assert alert["annotations"]["description"]
    page, _, anchor = alert["annotations"]["runbook_url"].partition("#")
    assert page == "docs/runbooks.md"  # of the release, unless somebody says where it is published
    assert (ROOT / page).exists()
    assert anchor == alert["alert"].lower()
    assert anchor in anchors()


def anchors() -> list[str]:
    """As a page of Markdown gets them from its headings."""
    headings = re.findall(r"^## (.+)$", (ROOT / "docs" / "runbooks.md").read_text(), re.MULTILINE)
    return [re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-") for heading in headings]


def test_every_runbook_belongs_to_an_alert_and_every_name_is_used_once():
    names = [alert["alert"] for alert in alerts()]
    assert len(set(names)) == len(names)
    assert sorted(anchors()) == sorted(name.lower() for name in names)
    text = (ROOT / "docs" / "runbooks.md").read_text()
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= set(anchors())


def test_reasons_in_queries_are_those_that_are_told():
    own = {"ClaimRefused"}
    for _, expr in queries():
        for reasons in re.findall(r'reason=~"([^"$]+)"', expr):
            assert set(reasons.split("|")) <= {str(reason) for reason in Reason} | own


def test_whatever_somebody_has_to_mend_is_alerted_about():
    """Whoever adds a reason of that sort says here or there what becomes of it."""
    (alert,) = [alert for alert in alerts() if alert["alert"] == "DRAReconcilerClaimsBroken"]
    (reasons,) = re.findall(r'reason=~"([^"]+)"', alert["expr"])
    passing = {Reason.INCOMPLETE_POOL, Reason.CONSTRAINT_VIOLATED}
    assert {reason for reason in Reason if reason.is_error} - passing <= set(reasons.split("|"))


def firing(name: str, *samples: Sample) -> list[dict[str, str]]:
    """The labels of the alerts that fire, after their `for`."""
    (alert,) = [alert for alert in alerts() if alert["alert"] == name]
    return [dict(labels) for labels in evaluate(alert["expr"], samples)]


def leader(value: float | None, pod: str, lease: str, **more: Any) -> Sample:
    return sample("dra_reconciler_leader", value, namespace="ns", pod=pod, lease=lease, **more)


def test_a_shard_without_leader_is_alerted_about_beside_shards_that_have_one():
    well = (leader(1, "a-0", "x"), leader(0, "a-1", "x"))
    assert firing("DRAReconcilerNobodyLeads", *well) == []
    found = firing("DRAReconcilerNobodyLeads", *well, leader(0, "b-0", "y"), leader(0, "b-1", "y"))
    assert found == [{"namespace": "ns", "lease": "y"}]


def test_a_shard_without_any_replica_is_alerted_about():
    """Its series are gone, so that nothing is 0."""
    well = leader(1, "a-0", "x")
    assert firing("DRAReconcilerShardAbsent", well, leader(None, "a-1", "x", before=1)) == []
    found = firing("DRAReconcilerShardAbsent", well, leader(None, "b-0", "y", before=1))
    assert found == [{"namespace": "ns", "lease": "y"}]


def test_the_queue_of_a_standby_is_nobodys_concern():
    age = "dra_reconciler_queue_oldest_age_seconds"
    ages = [sample(age, 100, namespace="ns", pod=pod) for pod in ("a-0", "a-1")]
    found = firing("DRAReconcilerQueueStuck", *ages, leader(1, "a-0", "x"), leader(0, "a-1", "x"))
    assert found == [{"namespace": "ns", "pod": "a-0"}]


@pytest.mark.parametrize("lease", ["", "x"], ids=["alone", "elected"])
def test_the_queue_panel_shows_that_of_the_leader(lease: str):
    (panel,) = [panel for panel in panels() if panel["title"] == "Queue"]
    expr = panel["targets"][0]["expr"].replace("$namespace", "ns")
    depths = [
        sample("dra_reconciler_queue_depth", number, namespace="ns", pod=pod, state="due")
        for pod, number in (("a-0", 3), ("a-1", 40))
    ]
    found = evaluate(expr, [*depths, leader(1, "a-0", lease), leader(0, "a-1", lease)])
    assert found == {frozenset({("state", "due")}): 3}


def summed(node: Any, *, within: bool = False) -> Iterator[str]:
    """The metrics over which a query sums as they are, other than those of the leader alone."""
    match node:
        case promql_parser.AggregateExpr():
            yield from summed(node.expr, within=str(node.op) in ("sum", "avg", "count"))
        case promql_parser.BinaryExpr() if str(node.op) == "and":
            of_leader = "dra_reconciler_leader" in node.rhs.prettify()
            yield from summed(node.lhs, within=within and not of_leader)
        case promql_parser.BinaryExpr():
            yield from summed(node.lhs, within=within)
            yield from summed(node.rhs, within=within)
        case promql_parser.ParenExpr():
            yield from summed(node.expr, within=within)
        case promql_parser.VectorSelector() if within:
            yield str(node.name)


def test_no_query_adds_up_what_every_replica_says_of_the_same_cluster():
    gauges = {spec.full_name for spec in CATALOGUE if spec.kind == "gauge" and not spec.by_leader}
    counted = {"dra_reconciler_leader"}
    for where, expr in queries():
        assert not (gauges - counted) & set(summed(parsed(expr))), where


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("sum(x)", ["x"]),
        ("sum(max by (a) (x))", []),
        ("sum(x and on (pod) dra_reconciler_leader == 1)", []),
        ("sum(x and on (pod) y)", ["x"]),
        ("max(x) / sum by (a) (y > 0)", ["y"]),
    ],
)
def test_sums_over_replicas_are_found(query: str, wanted: list[str]):
    assert list(summed(promql_parser.parse(query))) == wanted


def test_panels_do_not_overlap_and_have_titles():
    cells: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        at = panel["gridPos"]
        assert panel["title"]
        covered = {
            (x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])
        }
        assert not covered & cells
        assert at["x"] + at["w"] <= 24
        cells |= covered
    ids = [panel["id"] for panel in dashboard()["panels"]]
    assert len(set(ids)) == len(ids)


def test_every_metric_of_the_dashboard_and_alerts_together_is_most_of_what_there_is():
    """A metric that nobody looks at is not worth its cost."""
    asked = {selector.name for _, expr in queries() for selector in selectors(parsed(expr))}
    unseen = {spec.full_name for spec in CATALOGUE if not asked & set(spec.series)}
    assert unseen == set()


def test_the_kustomization_names_every_file_beside_it():
    (made,) = documents("kustomization.yaml")
    named = {*made["resources"], *made["configMapGenerator"][0]["files"]}
    assert named == {path.name for path in FOLDER.iterdir()} - {"kustomization.yaml"}


@pytest.mark.parametrize(
    "document", [documents("rbac.yaml")[0], documents("rbac.yaml")[1], documents("monitor.yaml")[0]]
)
def test_what_kubernetes_has_a_schema_for_fits_it(document):
    kubernetes_validate.validate(document, KUBERNETES, strict=True)


@pytest.mark.parametrize("document", [documents("monitor.yaml")[1], documents("alerts.yaml")[0]])
def test_what_the_operator_reads_fits_its_definitions(document):
    monitoring_kinds.assert_valid(document)
    with pytest.raises(AssertionError):
        monitoring_kinds.assert_valid({**document, "spec": {**document["spec"], "endpoint": []}})


def container() -> Any:
    return of_kind("Deployment")["spec"]["template"]["spec"]["containers"][0]


def test_prometheus_finds_the_port_that_the_pod_listens_on():
    service, monitor = documents("monitor.yaml")
    labels = of_kind("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    (port,) = service["spec"]["ports"]
    assert (endpoint["port"], endpoint["path"], endpoint["scheme"]) == (port["name"], "/metrics", "https")
    assert port["targetPort"] in {listening["name"] for listening in container()["ports"]}
    # A service of that name would set DRA_RECONCILER_STATUS_PORT in pods, which is a setting.
    assert service["metadata"]["name"] != "dra-reconciler-status"


def test_the_pod_serves_what_the_probes_ask_for():
    environment = {variable["name"]: variable["value"] for variable in container()["env"]}
    fields = {name.removeprefix("DRA_RECONCILER_").lower(): value for name, value in environment.items()}
    settings = tuned(**fields)
    (listening,) = [port for port in container()["ports"] if port["name"] == "status"]
    assert settings.status_port == listening["containerPort"]
    assert settings.status_token_review
    assert not settings.status_address.startswith("127.")
    for probe, path in {
        "startupProbe": "/livez",
        "livenessProbe": "/livez",
        "readinessProbe": "/readyz",
    }.items():
        asked = container()[probe]["httpGet"]
        assert (asked["path"], asked["port"], asked["scheme"]) == (path, "status", "HTTPS")


def test_a_process_that_is_stuck_is_started_again_and_one_that_waits_for_the_server_is_not():
    live = container()["livenessProbe"]
    assert live["timeoutSeconds"] <= live["periodSeconds"]
    start = container()["startupProbe"]
    assert start["periodSeconds"] * start["failureThreshold"] >= 60


def test_the_account_may_ask_the_cluster_who_asks():
    found = yaml.safe_load_all((ROOT / "deploy" / "base" / "rbac.yaml").read_text())
    roles = {d["roleRef"]["name"] for d in found if d["kind"] == "ClusterRoleBinding"}
    assert "system:auth-delegator" in roles
