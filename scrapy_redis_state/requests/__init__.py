"""Requests between a spider and the crawl: bytes, score, limits, which page it is."""
