"""From a config to a record: training, evaluation and measurements on frozen encoders."""
