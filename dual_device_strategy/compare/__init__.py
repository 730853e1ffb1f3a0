"""The same work under this strategy and its peers: `python -m dual_device_strategy.compare`."""
