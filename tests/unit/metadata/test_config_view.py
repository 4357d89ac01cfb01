"""Settings as a node shows them (DescribeConfigs)."""

from __future__ import annotations

from immutables import Map

from headrace.config.node_settings import parse_node_config
from headrace.config.rules import ResourceType
from headrace.metadata.config_view import ConfigView
from headrace.metadata.image import ConfigResource, ConfigsImage

SETTINGS = {
    "log.retention.ms": "1000",
    "log.flush.interval.ms": "2",
    "zzz": "1",
    "log.segment.bytes": "1048576",
    "aaa": "2",
}

FILE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": "/data",
}


def _view(broker_id: str) -> ConfigView:
    config = parse_node_config(FILE)
    resource = ConfigResource(ResourceType.BROKER, broker_id)
    return ConfigView(
        started_with=config, current=config, configs=ConfigsImage(by_resource=Map({resource: Map(SETTINGS)}))
    )


def test_what_is_set_for_all_brokers_is_told_by_name() -> None:
    """B-C08: so two nodes, or two runs of one, answer alike; the maps behind have an order of their own in each process."""
    assert [each.name for each in _view("").all_brokers(None)] == sorted(SETTINGS)
    assert [each.name for each in _view("").all_brokers(["zzz", "aaa"])] == ["aaa", "zzz"]


def test_unknown_settings_of_one_broker_are_told_last_and_by_name() -> None:
    """B-C08."""
    assert [each.name for each in _view("1").broker(None)][-2:] == ["aaa", "zzz"]
