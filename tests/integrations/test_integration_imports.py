"""No library is imported before its integration is asked for."""

from __future__ import annotations

import subprocess
import sys

LIBRARIES = ("lightly", "open_clip", "pytorch_metric_learning", "sentence_transformers")


def test_the_package_imports_none_of_the_libraries():
    code = (
        "import sys, weince_lib, weince_lib.integrations, weince_lib.integrations._core\n"
        f"print([name for name in {LIBRARIES} if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
