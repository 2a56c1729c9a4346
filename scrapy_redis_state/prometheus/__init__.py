"""Metrics for Prometheus: what a worker has of them, and how they are served."""
