"""The words everybody uses: ids, error codes, and what the outside lends us. Imports the standard library only."""
