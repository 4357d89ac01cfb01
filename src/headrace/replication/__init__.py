"""Leader and follower of one partition: who holds what, and what of it is committed."""
