"""``python -m weince_lib.experiments.gpu_study``: the study for one GPU."""

from ..studies.gpu_study import main

if __name__ == "__main__":
    main()
