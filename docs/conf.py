"""How the documentation is built: ``sphinx-build -W docs docs/_build``."""

from importlib.metadata import version as version_of

project = "scrapy-redis-state"
author = "scrapy-redis-state contributors"
copyright = author  # noqa: A001 - Sphinx's name for it
version = release = version_of("scrapy-redis-state")

extensions = ["sphinx.ext.autodoc"]
html_theme = "furo"
html_title = "scrapy-redis-state"
exclude_patterns = ["_build"]

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_class_signature = "separated"
nitpicky = False
