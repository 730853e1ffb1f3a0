"""Iterators in checkpoints: saved between two steps, they go on after the last consumed batch.

saved_iterator     an iterator as `tf.train.Checkpoint` sees it
iterator_record    the record that a save needs, kept while batches flow
host_record        its part on the host: the batches that have left the host's iterator
front_end_state    its part on the data device: variables that the front end writes to
pipelines          identifies the pipeline of a checkpoint; refuses what cannot be saved
mid_epoch_backup   `MidEpochBackup`, the callback for `fit`
"""
