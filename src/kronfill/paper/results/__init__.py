"""From finished cells to a table, pictures, verdicts and a page; nothing is fitted here."""
