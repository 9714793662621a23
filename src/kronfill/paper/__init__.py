"""The paper's experiment: Figure 1, from its synthetic data to the page that shows it.

Here are the data (``synthetic``, ``circulant``), the settings of the methods and their losses over
all entries, the constants that the paper does not state with how they were found (``calibrate``,
``tune``), and the run itself: one seeded cell at a time (:mod:`kronfill.paper.running`), then means
and pictures (:mod:`kronfill.paper.results`). Not here: the methods, which are those of the library,
and the theorems (:mod:`kronfill.bounds`).
"""
