"""What the quorum writes for itself: control records and quorum-state."""
