"""Crawls of scrapy-redis, read where they lie and copied into one of ours."""
