"""The places where a pipeline's rows can go. One file a kind of sink; each writes one micro-batch, and writing it again does no harm it can avoid."""
