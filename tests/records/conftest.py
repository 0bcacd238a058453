"""Every test in this folder has runs, results and figures of its own."""

import pytest


@pytest.fixture(autouse=True)
def _own(own_folders):
    """Keep the checkout's records and tables out of reach."""
