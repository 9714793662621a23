"""The paper's experiment: Figure 1, from its synthetic data to the page that shows it.

One seeded cell at a time (:mod:`kronfill.paper.running`), then means and pictures
(:mod:`kronfill.paper.results`). The methods themselves are those of the library.
"""
