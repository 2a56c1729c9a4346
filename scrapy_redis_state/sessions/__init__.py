"""What Scrapy's requests and cookies have to do with the sessions of sites."""
