"""Parts of the measurement of the server."""
