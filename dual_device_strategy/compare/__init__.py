"""Compares this strategy with others on the same work: `python -m dual_device_strategy.compare`.

contenders    the ways to do the work: ours, TensorFlow's strategies, loops without a strategy
rounds        measures all of them in alternating rounds
host_cores    what the front end costs on the cores of the host
report, plot  tables, sentences, JSON; a page and a picture
logs          `--logs`: compares two finished runs
"""
