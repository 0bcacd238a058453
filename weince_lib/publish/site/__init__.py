"""The companion as a static site: executed notebooks, claims and the library's reference.

Needs the extra ``site`` (Sphinx, MyST-NB, the furo theme and MathJax's files). The pages load
nothing from outside: a folder on any file server, or on a memory stick, is enough.
"""

from .builder import build

__all__ = ["build"]
