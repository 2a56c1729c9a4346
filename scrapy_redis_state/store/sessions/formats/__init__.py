"""Cookies as browsers and other programs keep them, in and out."""
