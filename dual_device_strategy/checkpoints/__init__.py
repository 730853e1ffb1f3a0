"""Iterators in checkpoints: saved between two steps, they go on after the last consumed batch.

saved_iterator    what `tf.train.Checkpoint` sees of an iterator
iterator_record   what is kept for it while batches flow, on the host and on the data device
host_record       the batches that have left the host's iterator
front_end_state   the variables that the front end writes to, generators among them
pipelines         which pipeline a checkpoint is of, and what cannot be saved
"""
