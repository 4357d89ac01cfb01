-- Which partition was led by whom from when on, and why. Records of a snapshot say how things were, not what happened.
CREATE MATERIALIZED VIEW leaderships
AS SELECT
  t.topic, p.partition, p.timestamp AS since, p.leader,
  lag(p.leader) OVER (PARTITION BY p.topic_id, p.partition ORDER BY p.offset) AS leader_before,
  coalesce(get_json_object(p.cause, '$.kind'), 'not told') AS cause,
  CAST(get_json_object(p.cause, '$.broker') AS INT) AS cause_broker
FROM (
  SELECT
    offset, timestamp, cause, is_snapshot,
    get_json_object(data, '$.topicId') AS topic_id,
    CAST(get_json_object(data, '$.partitionId') AS INT) AS partition,
    CAST(get_json_object(data, '$.leader') AS INT) AS leader
  FROM decisions WHERE type IN ('PARTITION_RECORD', 'PARTITION_CHANGE_RECORD')
) p
JOIN (
  SELECT DISTINCT get_json_object(data, '$.topicId') AS topic_id, get_json_object(data, '$.name') AS topic
  FROM decisions WHERE type = 'TOPIC_RECORD'
) t ON p.topic_id = t.topic_id
WHERE p.leader IS NOT NULL;

-- How often did leaderships move in each hour, and why?
CREATE MATERIALIZED VIEW leader_moves
AS SELECT
  date_trunc('hour', since) AS hour, cause, count(*) AS moves, count_if(leader = -1) AS lost,
  count(DISTINCT topic, partition) AS partitions
FROM leaderships WHERE leader_before IS NOT NULL AND leader <> leader_before
GROUP BY 1, 2;

-- How far behind is each group, and how far was it in its worst moment of the hour?
CREATE MATERIALIZED VIEW lag_by_group
AS SELECT `group`, hour, max_by(lag, timestamp) AS lag_at_the_end, max(lag) AS worst_lag
FROM (
  SELECT `group`, timestamp, date_trunc('hour', timestamp) AS hour, sum(end - committed) AS lag
  FROM lags GROUP BY `group`, timestamp
)
GROUP BY `group`, hour;

-- Which nodes did not answer, and which had partitions that are not fully in sync?
CREATE MATERIALIZED VIEW troubles
AS SELECT node, metric, count(*) AS looks, min(timestamp) AS first, max(timestamp) AS last, max(value) AS worst
FROM metrics
WHERE (metric = 'up' AND value = 0) OR (metric LIKE '%underreplicatedpartitions' AND value > 0) OR (metric LIKE '%offlinepartitionscount' AND value > 0)
GROUP BY node, metric;
