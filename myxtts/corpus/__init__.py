"""From any speech corpus to batches.

formats    the corpus layouts that can be read, and the registry for new ones
prepare    every clip checked once, copied where needed, listed in the manifest
embedded   a corpus that espeak-ng speaks, for users without data
manifest   the prepared corpus as columns in memory
plan       which clips go into each batch of each epoch
batches    reads and decodes the batches with tf.data
"""
