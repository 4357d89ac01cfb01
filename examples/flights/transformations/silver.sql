-- Silver: reports that make sense, decoded; those that do not, with the reason, as they came.
CREATE TEMPORARY VIEW decoded AS
SELECT
  from_json(report, 'seq INT, scheduled TIMESTAMP, carrier STRING, flight INT, origin STRING, dest STRING, dep_delay DOUBLE, arr_delay DOUBLE, distance INT') AS r,
  report, partition, offset
FROM STREAM reports WITH ('maxFilesPerTrigger' = '3');

CREATE STREAMING TABLE flights
AS SELECT r.*, partition, offset FROM STREAM decoded WHERE r.seq IS NOT NULL AND r.scheduled IS NOT NULL AND r.carrier IS NOT NULL;

CREATE STREAMING TABLE quarantine
AS SELECT
  report, partition, offset,
  CASE WHEN r.seq IS NULL THEN 'not decoded' WHEN r.scheduled IS NULL THEN 'no time' ELSE 'no carrier' END AS reason
FROM STREAM decoded WHERE r.seq IS NULL OR r.scheduled IS NULL OR r.carrier IS NULL;
