"""The best answer without choosing: low rank and kernels, their weights learned, mixed.

:class:`AutoMC` fits up to three members and mixes them with weights from hidden entries: low rank
with kernel priors (:class:`~kronfill.BayesianKMC`), a Kronecker ridge regression with the kernels
of what is known, and one that in addition compares items by their latent factors.
"""
