"""The tests mirror the packages; `python -m tests.mutations` checks that they find mistakes."""
