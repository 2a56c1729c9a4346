"""Parts of the measurement of many workers."""
