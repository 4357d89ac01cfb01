"""One process: its roles wired together, still pure."""
