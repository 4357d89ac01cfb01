"""What a metadata delta changes on this broker."""
