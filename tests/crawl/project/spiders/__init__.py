"""Spiders, each made for one kind of behaviour."""
