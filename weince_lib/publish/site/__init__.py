"""The companion as a static site: executed notebooks, claims and the library's reference.

Needs the extra ``site`` (Sphinx, MyST-NB, the furo theme and MathJax's files). The pages load
nothing from outside: a folder on any file server, or on a memory stick, is enough.
"""

from .builder import build
from .check import Weight, broken_links, loads_from_outside, page_weights, undescribed_images

__all__ = [
    "Weight",
    "broken_links",
    "build",
    "loads_from_outside",
    "page_weights",
    "undescribed_images",
]
