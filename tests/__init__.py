"""Mirrors the packages; `python -m tests.mutations` judges it."""
