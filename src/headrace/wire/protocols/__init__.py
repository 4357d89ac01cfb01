"""Headers, and what clients carry through a coordinator."""
