"""Starts a site and several workers; kills some; counts what came out."""
