-- Gold: delays by hour and carrier with the weather, once the hour is over; reports that come later are dropped.
CREATE STREAMING TABLE delays
AS SELECT
  window.start AS hour, f.carrier AS carrier, a.name AS airline,
  count(*) AS flights, sum(f.dep_delay) AS dep_delay_minutes, avg(f.dep_delay) AS mean_dep_delay, max(f.dep_delay) AS max_dep_delay,
  count(w.precip) AS flights_with_weather, count_if(w.precip > 0) AS wet_flights, sum(CASE WHEN w.precip > 0 THEN f.dep_delay END) AS wet_delay_minutes
FROM STREAM flights WITH ('maxFilesPerTrigger' = '3') WATERMARK scheduled DELAY OF INTERVAL 3 HOURS AS f
JOIN airlines a ON f.carrier = a.carrier
LEFT JOIN weather w ON f.origin = w.origin AND date_trunc('hour', f.scheduled) = w.hour
WHERE f.dep_delay IS NOT NULL
GROUP BY window(f.scheduled, '1 hour'), f.carrier, a.name;

CREATE MATERIALIZED VIEW cancelled
AS SELECT carrier, count(*) AS flights FROM flights WHERE dep_delay IS NULL GROUP BY carrier;
