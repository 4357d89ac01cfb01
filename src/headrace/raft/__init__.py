"""Who leads the metadata quorum, and which entries of its log are committed?

Reading order: `events` (what goes in and what comes out), `roles` (who may become what), `machine` (`RaftNode.step`), then the
arithmetic: `quorum`, `election`, `replication`, `voters`, `snapshots`.
"""
