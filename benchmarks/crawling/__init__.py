"""Parts of the measurement of whole crawls."""
