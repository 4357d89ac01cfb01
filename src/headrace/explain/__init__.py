"""Why has the metadata quorum no leader, or why does its high watermark not move? Facts in, ranked causes out (decision 17)."""
