"""The worker: outbox, prefetch buffer and exchange loop; asyncio, no Scrapy."""
