"""The controller: decisions for the whole cluster, one at a time.

Reading order: `events` (what goes in and what comes out), `decision`, `machine` (`ControllerMachine.step`), then one file a
subject: `topics`, `partitions`, `placement`, `brokers`, `heartbeats`, `configs`, `features`, `producer_ids`.
"""
