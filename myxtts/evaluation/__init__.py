"""Measures how good a trained run is.

held_out         figures of the run's own networks on held-out clips; cheap
intelligibility  how well a recogniser understands new sentences; `recogniser` is a small one
cloning          how similar a cloned voice is to its reference; `speakers` is the judge
distances        between texts, and between two clips of the same text
sentences        the sentences to say, with recordings of how they should sound
learning, roughening, waveforms   the training of recogniser and judge
report, command  the tables, and `python -m myxtts.evaluation --checkpoint=RUN`
"""
