"""What does the metadata log say now?

Reading order: `image` (the immutable state), `replay` (the one meaning of each record), `delta` (what differs between two
images), `loader` (committed batches -> image -> publishers), `snapshot` (an image as the fewest records).
"""
