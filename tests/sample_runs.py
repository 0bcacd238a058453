"""A run that trains in a second."""

TINY = {
    "dataset": "digits",
    "train_limit": 120,
    "encoder": "resnet-small",
    "width": 4,
    "projection_dim": 8,
    "epochs": 2,
    "batch_size": 32,
    "probe_epochs": 2,
    "probe_seeds": (1, 2),
    "split_seeds": (1, 2),
}
