"""How does a person or a script operate a cluster from a terminal? One module a command; `main` finds it."""
