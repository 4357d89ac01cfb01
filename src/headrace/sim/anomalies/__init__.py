"""What a client would notice: histories of calls, and the one judge of them, for simulated and for real clusters (H1 to H3, H6 to H9, H13 to H15)."""
