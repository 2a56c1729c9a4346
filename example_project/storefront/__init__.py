"""A small shop site, served on the loopback interface for the example."""
