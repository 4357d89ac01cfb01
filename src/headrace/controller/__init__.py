"""What does the cluster decide next?

Reading order: `events` (what goes in and what comes out), `decision`, `machine` (`ControllerMachine.step`), then one file a
subject: `topics`, `partitions`, `placement`, `brokers`, `heartbeats`, `configs`, `features`, `producer_ids`.
"""
