"""What one partition log decides; it touches no file."""
