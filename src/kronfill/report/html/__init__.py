"""The contents of a report as one HTML page that needs nothing but a browser."""
