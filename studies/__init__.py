"""Studies on real data: ``python -m studies`` runs them and writes docs/results.md."""
