"""The metadata quorum: who leads it, and which entries of its log are committed.

Reading order: `events` (what goes in and what comes out), `roles` (who may become what), `machine` (`RaftNode.step`) and `core` (what all
concerns share), then the concerns: `voting`, `following`, `leading`, `requests`, `snapshot_download`, `voter_changes`, `joining`; below them
stateless rules and small books: `quorum`, `election`, `replication`, `replicas`, `history`, `voters`, `snapshots`, `outbox`, `invariants`.
"""
