"""What the log and the stats tell of a crawl while it runs."""
