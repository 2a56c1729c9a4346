from __future__ import annotations

from scrapy.dupefilters import RFPDupeFilter


class OurOwnFilter(RFPDupeFilter):
    """Stands for a duplicates filter of somebody else."""
