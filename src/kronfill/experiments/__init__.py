"""The paper's experiment: one seeded cell at a time, stored as it completes, then drawn."""
