"""The words everybody uses: ids, error codes, settings, and what the outside lends us. Imports the standard library only."""
