"""Does a cluster of real processes keep its promises while it is broken on purpose?

    python -m tools.chaos                                              eight mixes of faults, 60 s each, on three nodes
    python -m tools.chaos --mixes kill,cut --seconds 30 --seed 7 --rounds 3

Each node runs in a network namespace of its own, clients of another maker (librdkafka) in one more. A plan drawn from the seed says what
breaks when; clients write what they call and what they see as JSON lines; afterwards a judge, which is pure and has tests of its own,
reads these histories. Nothing of this is in the product.
"""
