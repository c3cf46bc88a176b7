"""In-tree disks: the volumes of CSI drivers that they are, and where these can be used."""

from typing import Any

import pytest

from reconciler.api.objects.storage import PersistentVolume
from reconciler.state.volumes.objects import AWS, AZURE, VolumeID, plugin_of, translated_affinity, volume_id

ZONE, BETA = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"


def disk(labels: dict[str, str], terms: list[Any] | None = None, **source: Any) -> PersistentVolume:
    affinity = {} if terms is None else {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
    raw = {"metadata": {"name": "v", "labels": labels}, "spec": {**source, **affinity}}
    return PersistentVolume.model_validate(raw)


@pytest.mark.parametrize(
    ("labels", "source", "expected"),
    [
        ({}, {"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-1"}}, ("ebs.csi.aws.com", "vol-1")),
        ({}, {"awsElasticBlockStore": {"volumeID": "vol-1"}}, ("ebs.csi.aws.com", "vol-1")),
        (
            {ZONE: "us-central1-a"},
            {"gcePersistentDisk": {"pdName": "d"}},
            ("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/us-central1-a/disks/d"),
        ),
        (
            {BETA: "us-central1-a__us-central1-b"},
            {"gcePersistentDisk": {"pdName": "d"}},
            ("pd.csi.storage.gke.io", "projects/UNSPECIFIED/regions/us-central1/disks/d"),
        ),
        ({BETA: "us-central1-a__us-east1-b"}, {"gcePersistentDisk": {"pdName": "d"}}, None),
        ({}, {"azureDisk": {"diskURI": "uri", "kind": "Managed"}}, ("disk.csi.azure.com", "uri")),
        ({}, {"azureDisk": {"diskURI": "uri", "kind": "Dedicated"}}, None),
        ({}, {"cinder": {"volumeID": "id"}}, ("cinder.csi.openstack.org", "id")),
        ({}, {"portworxVolume": {"volumeID": "id"}}, ("pxd.portworx.com", "id")),
        ({}, {"nfs": {"server": "s", "path": "/"}}, None),
    ],
)
def test_a_disk_is_a_volume_of_its_driver(
    labels: dict[str, str], source: Any, expected: tuple[str, str] | None
):
    found = volume_id(disk(labels, **source))
    assert found == (None if expected is None else VolumeID(*expected))


def keys(volume: PersistentVolume) -> list[tuple[str, tuple[str, ...]]] | None:
    found = translated_affinity(volume, plugin_of(volume.spec) or AWS)
    if found is None:
        return None
    return [(one.key, one.values) for term in found.node_selector_terms for one in term.match_expressions]


def test_the_zone_of_a_disk_is_the_label_of_its_driver():
    """From the node affinity, else from the labels; the older label of a region is renamed with its zone."""
    ebs: Any = {"awsElasticBlockStore": {"volumeID": "v"}}
    csi = AWS.topology_key
    here = {"operator": "In", "values": ["z1"]}
    assert keys(disk({}, **ebs)) is None
    assert keys(disk({}, [{"matchExpressions": [{"key": ZONE, **here}]}], **ebs)) == [(csi, ("z1",))]
    assert keys(disk({ZONE: "z1__z2"}, **ebs)) == [(csi, ("z1", "z2"))]
    region = {"key": "failure-domain.beta.kubernetes.io/region", "operator": "In", "values": ["r"]}
    assert keys(disk({BETA: "z1"}, [{"matchExpressions": [region]}], **ebs)) == [
        ("topology.kubernetes.io/region", ("r",)),
        (csi, ("z1",)),
    ]
    azure = disk({ZONE: "z1"}, [{"matchExpressions": [{"key": ZONE, **here}]}], azureDisk={"diskURI": "u"})
    assert plugin_of(azure.spec) is AZURE
    assert keys(azure) == [(ZONE, ("z1",))]
