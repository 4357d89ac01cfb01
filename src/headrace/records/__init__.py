"""Record batches in format v2: look at them, change their headers in place, read and write them."""
