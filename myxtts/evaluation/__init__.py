"""How good a trained run is, in figures.

held_out         figures of its own networks on held-out clips, cheap
intelligibility  new sentences, heard by a recogniser; `recogniser` is a small one to do it with
cloning          voices the run never heard, told apart by a judge; `speakers` is the judge
distances        between texts, and between two clips that say the same
sentences        what is said, and how it should sound
learning, roughening, waveforms   what recogniser and judge are trained with
report, command  the tables, and `python -m myxtts.evaluation --checkpoint=RUN`
"""
