"""What `train.py` does, from its arguments to the last line it prints.

arguments   the arguments as typed: flag files, older spellings, every mistake at once
flag_table  the flags, in groups; data_flags, training_flags and run_flags hold them
settings    the flags' values as the settings of a run
strategies  the strategy to train under
corpora     the clips to train on, made or prepared
memory      what a stage needs on each device, estimated
advice      settings that will hurt, and the better value
dry_run     everything about a run but the run
main        the order of it all, and the exit code
"""
