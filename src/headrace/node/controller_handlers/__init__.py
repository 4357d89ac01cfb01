"""Who answers on a controller listener: one module a kind of API."""
