"""The command line: one module a command; `main` finds it."""
