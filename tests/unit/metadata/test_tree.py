"""Which names and texts has the tree of an image? Those of Kafka 4.3.1's metadata shell."""

from __future__ import annotations

import pytest
from immutables import Map

from headrace.core.ids import ONE_UUID, Uuid
from headrace.metadata.image import (
    AccessControlEntry,
    BrokerRegistration,
    ClusterImage,
    ConfigResource,
    ConfigsImage,
    ControllerRegistration,
    DelegationToken,
    EndPoint,
    FeatureRange,
    FeaturesImage,
    MetadataImage,
    MetadataProvenance,
    PartitionRegistration,
    QuotaEntityPart,
    ScramCredential,
    TopicImage,
    TopicsImage,
)
from headrace.metadata.tree import Directory, Leaf, image_tree, quota_name
from headrace.metadata.tree_text import delegation_token, java_double

A = Uuid(b"a" * 16)
TOPIC = TopicImage(
    name="foo", id=A, partitions=Map({0: PartitionRegistration(replicas=(1,), directories=(A,), isr=(1,), leader=1)})
)
IMAGE = MetadataImage(
    provenance=MetadataProvenance(
        last_contained_offset=467, last_contained_epoch=2, last_contained_log_time_ms=1_795_277_769_480
    ),
    features=FeaturesImage(levels=Map({"metadata.version": 30, "group.version": 1})),
    cluster=ClusterImage(
        brokers=Map(
            {
                1: BrokerRegistration(
                    broker_id=1,
                    broker_epoch=413,
                    incarnation_id=A,
                    end_points=(EndPoint("PLAINTEXT", "h", 9092, 0),),
                    features=Map({"metadata.version": FeatureRange(7, 30), "x": FeatureRange(1, 1)}),
                    rack="r1",
                    fenced=False,
                    log_dirs=(A,),
                )
            }
        ),
        controllers=Map(
            {
                2: ControllerRegistration(
                    controller_id=2, incarnation_id=A, end_points=(EndPoint("CONTROLLER", "h", 9093, 1),)
                )
            }
        ),
    ),
    topics=TopicsImage(by_name=Map({"foo": TOPIC}), by_id=Map({A: TOPIC})),
    configs=ConfigsImage(
        by_resource=Map(
            {
                ConfigResource(2, "foo"): Map({"retention.ms": "1000"}),
                ConfigResource(4, ""): Map({"max.connections": "77"}),
            }
        )
    ),
    next_producer_id=1000,
    client_quotas=Map({(QuotaEntityPart("client-id", "a(b"), QuotaEntityPart("user", None)): Map({"x": 1024.0})}),
    acls=Map(
        {
            ONE_UUID: AccessControlEntry(
                id=ONE_UUID,
                resource_type=2,
                resource_name="foo",
                pattern_type=3,
                principal="User:bob",
                host="*",
                operation=3,
                permission_type=3,
            )
        }
    ),
    scram=Map(
        {
            ("al", 1): ScramCredential(
                name="al", mechanism=1, salt=b"\x01", stored_key=b"\x02", server_key=b"\x03", iterations=4096
            )
        }
    ),
)


def look(path: str) -> list[str] | str | None:
    """The names of a directory, the text of a file, None where nothing is."""
    node: Directory | Leaf | None = image_tree(IMAGE)
    for part in path.split("/"):
        node = node.child(part) if isinstance(node, Directory) else None
    return node.names() if isinstance(node, Directory) else None if node is None else node.text


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("provenance", "offset 467, epoch 2, time 2026-11-21T16:16:09.48Z[UTC]"),
        ("features", ["finalized_group.version", "metadataVersion"]),
        ("features/metadataVersion", "Optional[4.3-IV0]"),
        ("features/finalized_group.version", "1"),
        ("features/nope", None),
        (
            "cluster/brokers/1",
            f"BrokerRegistration(id=1, epoch=413, incarnationId={A}, listeners=[Endpoint(listenerName='PLAINTEXT', "
            "securityProtocol=PLAINTEXT, host='h', port=9092)], supportedFeatures={metadata.version: 7-30, x: 1}, "
            "rack=Optional[r1], fenced=false, inControlledShutdown=false, isMigratingZkBroker=false, "
            f"directories=[{A}], cordonedDirectories=[])",
        ),
        (
            "cluster/controllers/2",
            f"ControllerRegistration(id=2, incarnationId={A}, zkMigrationReady=false, "
            "listeners=[Endpoint(listenerName='CONTROLLER', securityProtocol=SSL, host='h', port=9093)], "
            "supportedFeatures={})",
        ),
        ("topics", ["byId", "byName"]),
        ("topics/byName", ["foo"]),
        ("topics/byName/foo", ["0", "id", "name"]),
        ("topics/byName/foo/name", "foo"),
        (f"topics/byId/{A}/id", str(A)),
        ("topics/byId/nope", None),
        ("topics/byName/foo/7", None),
        (
            "topics/byName/foo/0",
            f"PartitionRegistration(replicas=[1], directories=[{A}], isr=[1], removingReplicas=[], addingReplicas=[], "
            "elr=[], lastKnownElr=[], leader=1, leaderRecoveryState=RECOVERED, leaderEpoch=0, partitionEpoch=0)",
        ),
        ("configs", ["BROKER", "TOPIC:foo"]),
        ("configs/TOPIC:foo/retention.ms", "1000"),
        ("clientQuotas", ["clientId(a\\(b)_user(<default>)"]),
        ("clientQuotas/clientId(a\\(b)_user(<default>)/x", "1024.0"),
        ("producerIds/nextProducerId", "1000"),
        (
            f"acls/byId/{ONE_UUID}",
            "StandardAcl[resourceType=TOPIC, resourceName=foo, patternType=LITERAL, principal=User:bob, host=*, "
            "operation=READ, permissionType=ALLOW]",
        ),
        ("scram", ["SCRAM-SHA-256", "SCRAM-SHA-512"]),
        ("scram/SCRAM-SHA-256/al", "ScramCredentialData(salt=01, storedKey=02, serverKey=03, iterations=4096)"),
        ("scram/SCRAM-SHA-512", []),
        ("delegationToken", []),
    ],
)
def test_the_tree_is_that_of_kafkas_shell(path: str, expected: list[str] | str | None) -> None:
    """B-T10: names and texts were read off Kafka 4.3.1's shell."""
    assert look(path) == expected


def test_an_empty_image_has_the_whole_tree_too() -> None:
    """B-T10: Kafka says -1 for a producer id that nobody took yet, and no metadata.version."""
    root = image_tree(MetadataImage())
    assert len(root.names()) == 10
    features, producers = root.child("features"), root.child("producerIds")
    assert isinstance(features, Directory)
    assert isinstance(producers, Directory)
    assert features.child("metadataVersion") == Leaf("Optional.empty")
    assert producers.child("nextProducerId") == Leaf("-1")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1024.0, "1024.0"),
        (50.5, "50.5"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (0.0, "0.0"),
        (0.0005, "5.0E-4"),
        (1e22, "1.0E22"),
    ],
)
def test_doubles_look_as_in_java(value: float, text: str) -> None:
    """B-T10."""
    assert java_double(value) == text


def test_a_delegation_token_has_kafkas_brackets() -> None:
    """B-T10: they do not close in Kafka's shell either."""
    token = DelegationToken(
        token_id="t", owner="User:a", requester="User:b", renewers=("User:c", "User:d"),
        issue_timestamp=1, max_timestamp=2, expiration_timestamp=3,
    )  # fmt: skip
    assert delegation_token(token) == (
        "DelegationTokenDatatokenId=t(owner=User:a(tokenRequester=User:b(renewers=User:c User:d, issueTimestamp=1, "
        "maxTimestamp=2), expiryTimestamp=3"
    )


def test_a_name_of_a_quota_shows_its_parts_in_one_order() -> None:
    """B-T10."""
    entity = (QuotaEntityPart("user", "u\\"), QuotaEntityPart("client-id", "c"))
    assert quota_name(entity) == "clientId(c)_user(u\\\\)"
