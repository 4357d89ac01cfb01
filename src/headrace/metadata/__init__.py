"""What the metadata log says.

Reading order: `image` (the immutable state), `replay` (the one meaning of each record), `delta` (what differs between two
images), `loader` (committed batches -> image -> publishers), `snapshot` (an image as the fewest records).
"""
