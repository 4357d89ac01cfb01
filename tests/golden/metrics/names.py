"""Kafka's metrics by the names of Prometheus, and why Headrace lacks some of them. `python -m tests.golden.metrics.names` renews docs/kafka-metrics.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

GOLDEN = Path(__file__).with_name("kafka-4.3.1.txt")
PAGE = Path(__file__).parents[3] / "docs" / "kafka-metrics.md"
MOST_NAMES = 24
LINES = GOLDEN.read_text().splitlines()
TEXTS = {
    "kafka.server:type=KafkaServer,name=ClusterId:Value",
    "kafka.server:type=ControllerServer,name=ClusterId:Value",
}
_CLIENTS = "of the client by which a Kafka node asks another; the links between nodes have no metrics here"
_SHARE = "there are no share groups"
_TRANSACTIONS = "there are no transactions"
_NO_TIERS = "there is no tiered storage"
_NO_QUOTAS = "there are no quotas of clients"
_CHECKED = "`RequestMetrics` ErrorsPerSec tells refused batches by their error"
_RUNTIME = "requests are served one by one on the node's event loop, whose waiting is `KafkaServer` EventLoopLagMs"
_SOCKETS = "what a selector of Java does; `RequestMetrics` has requests, and the system has bytes and packets"
_MACHINE = "the machine's, which node_exporter shows"
MISSING: dict[str, str] = {
    r"kafka.coordinator.transaction:type=.*": _TRANSACTIONS,
    r"kafka.log:type=LogCleaner(Manager)?,.*": "compaction runs as jobs among others, without cleaner threads and buffers; what it removes shows in `Log` Size",
    r"kafka.network:type=Acceptor,.*": "connections are taken by the event loop, whose waiting is `KafkaServer` EventLoopLagMs",
    r"kafka.network:type=RequestChannel,.*": "there is no queue between sockets and handlers; `KafkaServer` EventLoopLagMs says how long a request waits in its socket",
    r"kafka.network:type=RequestMetrics,name=(MessageConversionsTimeMs|TemporaryMemoryBytes),.*": "nothing is converted, and the memory for a request is its own size",
    r"kafka.network:type=RequestMetrics,name=ThrottleTimeMs,.*": _NO_QUOTAS,
    r"kafka.server:type=(AddPartitionsManager-channel|alter-partition|directory-assignments|forwarding|heartbeat|raft-channel|registration|Persister-channel|txn-marker-channel)-?metrics.*": _CLIENTS,
    r"kafka.server:type=AddPartitionsToTxnManager,.*": _TRANSACTIONS,
    r"kafka.server:type=AssignmentsManager,.*": "Kafka's old name of `org.apache.kafka.server:type=AssignmentsManager`, which it keeps beside the new one",
    r"kafka.server:type=BrokerTopicMetrics,name=(BytesRejected|Invalid\w+|NoKeyCompactedTopicRecords)PerSec:.*": _CHECKED,
    r"kafka.server:type=BrokerTopicMetrics,name=Failed(Fetch|Produce)RequestsPerSec:.*": "Kafka counts failures that it does not know; here they close the connection and are in the log",
    r"kafka.server:type=BrokerTopicMetrics,name=(Fetch|Produce)MessageConversionsPerSec:.*": "nothing is converted",
    r"kafka.server:type=BrokerTopicMetrics,name=ReassignmentBytes(In|Out)PerSec:.*": "what is copied for a reassignment is counted with all that is copied",
    r"kafka.server:type=BrokerTopicMetrics,name=(Failed|Total)Share\w+:.*": _SHARE,
    r"kafka.server:type=(ControllerMutation|Fetch|Produce|Request):.*": _NO_QUOTAS,
    r"kafka.server:type=ControllerServer,.*": "the same as of `KafkaServer`, for the controller in the same process",
    r"kafka.server:type=client-metrics:.*": "clients cannot push metrics (KIP-714)",
    r"kafka.server:type=ForwardingManager:.*": "`kafka.server` ControllerRequestLatency has what a broker forwards",
    r"kafka.server:type=DelayedOperationPurgatory,.*delayedOperation=AlterAcls:.*": "there are no ACLs",
    r"kafka.server:type=DelayedOperationPurgatory,.*delayedOperation=ShareFetch:.*": _SHARE,
    r"kafka.server:type=DelayedOperationPurgatory,.*delayedOperation=Remote\w+:.*": _NO_TIERS,
    r"kafka.server:type=KafkaRequestHandlerPool,name=(Broker|Controller)RequestHandlerAvgIdlePercent:.*": "one event loop serves both roles of a node: RequestHandlerAvgIdlePercent",
    r"kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent:Count": "the nanoseconds of Kafka's threads together, of which the share is shown",
    r"kafka.server:type=KafkaServer,name=linux-disk-(read|write)-bytes:.*": _MACHINE,
    r"kafka.server:type=KafkaServer,name=yammer-metrics-count:.*": "how many metrics Kafka's library holds",
    r"kafka.server:type=ReplicaAlterLogDirsManager,name=(FailedPartitionsCount|MinFetchRate),.*": "copies between directories are not fetched; one that fails ends, and the log says why",
    r"kafka.server:type=ReplicaManager,name=PartitionsWithLateTransactionsCount:.*": _TRANSACTIONS,
    r"kafka.server:type=ReplicaManager,name=ProducerIdCount:.*": "it would be counted where records are produced",
    r"kafka.server:type=Share\w+,.*": _SHARE,
    r"kafka.server:type=share-coordinator-metrics.*": _SHARE,
    r"kafka.server:type=transaction-coordinator-metrics.*": _TRANSACTIONS,
    r"kafka.server:type=group-coordinator-metrics(,state=\w+)?:(share|streams|consumer)-group-.*": "groups of the classic protocol are served",
    r"kafka.server:type=group-coordinator-metrics,protocol=(consumer|share|streams):.*": "groups of the classic protocol are served",
    r"kafka.server:type=group-coordinator-metrics:(background|batch|event|thread)-.*": _RUNTIME,
    r"kafka.server:type=socket-server-metrics(,listener=\w+)?:.*": _SOCKETS,
    r"kafka.server:type=socket-server-metrics,listener=\w+,networkProcessor=\d+:(?!connection-(count|creation-total|close-total)).*": _SOCKETS,
    r"kafka.server:type=socket-server-metrics,clientSoftwareName=.*": "names that clients choose are no labels here",
    r"kafka.utils:type=Throttler,.*": "the pace of compaction has no metric",
}
"""What Kafka has and Headrace has not, by its beans and attributes, with the reason."""
_BEAN = re.compile(
    r"(?P<domain>[\w.]+):type=(?P<kind>[^,:]+)(?:,name=(?P<name>[^,:]+))?(?P<labels>(?:,[^,:=]+=[^,:]+)*):(?P<attribute>[^:=]+)(?:=(?P<value>.*))?"
)
_LABEL = re.compile(r",([^,=]+)=([^,]+)")


class Exported(NamedTuple):
    """A sample as the exporter has it: its name, whether it is a gauge or a counter, and its labels."""

    name: str
    kind: str
    labels: dict[str, str]


def reason_of(line: str) -> str | None:
    """Why Headrace has no such metric; None: it has one."""
    return next((reason for pattern, reason in MISSING.items() if re.fullmatch(pattern, line)), None)


def exported(line: str) -> Exported | None:
    """What the JMX exporter's rules for KRaft make of a bean's attribute; None: it shows nothing. Labels stay labels where its rules make them a part of the name."""
    found = _BEAN.fullmatch(line)
    assert found is not None, line
    domain, kind, name, attribute = found["domain"], found["kind"], found["name"], found["attribute"]
    labels = {key.replace("-", "_"): value for key, value in _LABEL.findall(found["labels"])}
    domain = domain.replace(".", "_")
    if line in TEXTS:
        return None
    if name is None:
        if attribute == "current-state":
            return _named("gauge", f"{domain}_{kind}_{attribute}_info", labels | {"state": found["value"] or ""})
        return None if attribute.endswith("-id") else _named("gauge", f"{domain}_{kind}_{attribute}", labels)
    if attribute == "Value":
        return _named("gauge", f"{domain}_{kind}_{name}", labels)
    if attribute == "MeanRate":
        is_share = name.endswith("Percent")
        return _named("gauge", f"{domain}_{kind}_{name.removesuffix('Percent')}_percent", labels) if is_share else None
    if attribute == "Count" and name.endswith("PerSec"):
        return _named("counter", f"{domain}_{kind}_{name.removesuffix('PerSec')}_total", labels)
    if attribute == "Count":
        return _named("counter", f"{domain}_{kind}_{name}_count", labels)
    if attribute.endswith("thPercentile"):
        quantile = "0." + attribute.removesuffix("thPercentile")
        return _named("gauge", f"{domain}_{kind}_{name}", labels | {"quantile": quantile})
    return None


def _named(kind: str, name: str, labels: dict[str, str]) -> Exported:
    return Exported(re.sub(r"[^a-z0-9_]", "_", name.lower()), kind, labels)


def value_of(line: str) -> float | None:
    """The value that was recorded, if one was."""
    found = _BEAN.fullmatch(line)
    return (
        None
        if found is None or found["value"] is None or found["attribute"] == "current-state"
        else float(found["value"])
    )


def page() -> str:
    """docs/kafka-metrics.md: Kafka's metrics, one line for each type and what became of it."""
    rows: dict[tuple[str, str], dict[str, None]] = {}
    for line in LINES:
        found = _BEAN.fullmatch(line)
        if found is None or exported(line) is None:
            continue
        bean = f"{found['domain']}:type={found['kind']}"
        rows.setdefault((bean, reason_of(line) or "yes"), {})[found["name"] or found["attribute"]] = None
    text = [
        "# Kafka's metrics, and which of them Headrace has\n",
        "What a combined node of Apache Kafka 4.3.1 shows over JMX, as the exporter's rules for KRaft show it ([decision 20](decisions/0020-metrics-by-kafkas-names.md)), and",
        "whether a node of Headrace shows it under the same name. Made by `python -m tests.golden.metrics.names` from the record of Kafka in `tests/golden/metrics`, which a test",
        "compares with a node; changes belong there. [metrics.md](metrics.md) says what to look at.\n",
        "| bean | metrics | here |",
        "|---|---|---|",
    ]
    for (bean, here), names in sorted(rows.items()):
        told = ", ".join([*names][:MOST_NAMES]) + (
            f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        )
        text.append(f"| `{bean}` | {told} | {here if here == 'yes' else 'no: ' + here} |")
    return "\n".join(text) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
