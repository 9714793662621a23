"""What a fit leaves behind: the bilinear form that predicts, and what it knows of each axis."""
