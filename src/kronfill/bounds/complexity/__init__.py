"""Random signs: their laws, the matrices they make, and what bounds or estimates their norms."""
