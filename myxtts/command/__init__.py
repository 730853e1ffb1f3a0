"""What `train.py` does, from its arguments to the last line it prints.

main        the order of a run, and the exit code
flags/      the flags, and how arguments become their values
settings    the flags' values as the settings of a run
corpora     the clips to train on, made or prepared
strategies  the strategy to train under
advice/     settings that will hurt, and the better value
dry_run     --dry_run: everything about a run but the run
profiling   --profile: where the time of the job goes
training    the run itself
console     the log in a terminal, and in the run directory
outcome     what is printed when it is done
"""
