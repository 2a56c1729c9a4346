"""Sessions in a worker: what it knows of them, writes and renews."""
