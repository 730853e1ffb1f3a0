"""Known mistakes, put into a copy of the packages one at a time: the tests must fail on each.

    python -m tests.mutations                   # all of them, a quarter of an hour of a core
    python -m tests.mutations --only=skip,ema   # those whose names contain one of the words
    python -m tests.mutations --list

By hand, not in CI: after tests were shortened, or joined, or made to share what they share. Prints
for each whether it was caught, and by which test; ends with 1 if one survived, or if its snippet is
no longer found in exactly one place (then write the snippet as it is now).
"""
