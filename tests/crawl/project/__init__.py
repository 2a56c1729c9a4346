"""The Scrapy project of the tests that crawl; ``crawls.py`` starts its spiders."""
