"""What a referee of the paper would ask, answered by experiments of our own."""
