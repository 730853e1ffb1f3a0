"""From any speech corpus to batches.

formats    how corpora are laid out, and the registry to add one
prepare    every clip checked once, copied where needed, listed in the manifest
embedded   a corpus made on the spot by espeak-ng, where there is none
manifest   the prepared corpus as columns in memory
plan       which clips go into each batch of each epoch
batches    reads and decodes the batches with tf.data
"""
