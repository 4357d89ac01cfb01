"""The asyncio driver: does effects in order, decides nothing."""
