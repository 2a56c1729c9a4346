"""What happens when a crawler enters a crawl: what is found, refused and said."""
