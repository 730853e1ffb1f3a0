"""The command `train.py`, from its arguments to the last line that it prints.

main        the order of a run, and the exit code
flags/      the flags, and how arguments become their values
settings    the flags' values as the settings of a run
corpora     the clips to train on, made or prepared
strategies  the strategy to train under
advice/     settings that will hurt, and the better value
dry_run     --dry_run: checks and prints everything, but does not train
profiling   --profile: where the job's time goes
training    the run itself
console     the log in a terminal, and in the run directory
outcome     what is printed when it is done
"""
