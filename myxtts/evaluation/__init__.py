"""Measures how good a trained run is.

held_out         figures of its own networks on held-out clips, cheap
intelligibility  how well a recogniser understands new sentences; `recogniser` is a small one
cloning          how like its reference a cloned voice is, by a judge; `speakers` is the judge
distances        between texts, and between two clips of the same text
sentences        the sentences to say, with recordings of how they should sound
learning, roughening, waveforms   the training of recogniser and judge
report, command  the tables, and `python -m myxtts.evaluation --checkpoint=RUN`
"""
