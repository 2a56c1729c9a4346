"""A Scrapy project whose crawl is shared by as many processes as are started."""
