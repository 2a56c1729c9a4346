"""Measurements of what a crawl costs; each prints a table and can write JSON."""
