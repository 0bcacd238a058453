"""``python -m weince_lib.experiments.text``: one sentence run."""

from ..runs.text import main

if __name__ == "__main__":
    main()
