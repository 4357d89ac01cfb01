"""Where can a pipeline's rows go? One file a kind of sink; each writes one micro-batch, and writing it again does no harm it can avoid."""
