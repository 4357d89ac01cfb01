"""The diagnosis of a metadata quorum that has no leader or does not move. Facts in, ranked causes out (decision 17)."""
