"""Do the checks find mistakes? Each module plants some: a named function of the product is replaced for the time of one run.

    python -m tools.mutants                    every defect, until it is found
    python -m tools.mutants --only K4 --seeds 50

The ids are those of section 8 of the catalogue of faults. Nothing of this is in the product.
"""
