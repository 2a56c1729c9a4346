"""The Scrapy project of these tests; ``crawls.py`` starts its spiders."""
