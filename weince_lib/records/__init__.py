"""One finished run, one record: the store, what a record was made with, and its lines in tables."""
