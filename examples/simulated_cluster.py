"""A cluster of six nodes on simulated time loses a rack and its network, and nothing that was promised.

pip install headrace
python examples/simulated_cluster.py [SEED]
"""

from __future__ import annotations

import sys

from headrace.sim.scenario import Simulation


def main(seed: int) -> None:
    """Minutes of a cluster's life in seconds; with the same seed they are the same minutes."""
    with Simulation(controllers=3, brokers=3, racks=3, seed=seed) as cluster:
        cluster.create_topic("orders", partitions=6, replication_factor=3, settings={"retention.ms": "86400000"})
        print(f"at {cluster.now:.0f} s: leaders {sorted(set(cluster.leaders('orders').values()))}")

        rack = next(rack for rack in ("rack-0", "rack-1", "rack-2") if cluster.leader_id in cluster.nodes_of(rack))
        gone = set(cluster.nodes_of(rack))
        cluster.power_off_rack(rack)
        cluster.run_until(lambda: cluster.leader_id not in {-1, *gone}, within=30)
        cluster.run_until(lambda: not gone & set(cluster.leaders("orders").values()), within=30)
        print(f"at {cluster.now:.0f} s: {rack} has no power, and its controller and broker lead nothing any more")

        cluster.heal()
        cluster.cut(1, 2)
        cluster.run_for(30)
        cluster.heal()
        cluster.run_for(30)
        settings = cluster.topic_settings("orders")
        print(f"at {cluster.now:.0f} s: all is back, retention.ms is {settings['retention.ms']}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
