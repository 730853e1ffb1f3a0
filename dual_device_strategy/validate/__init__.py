"""Proves a set-up: `python -m dual_device_strategy.validate --data_gpu=0 --model_gpu=1`.

Five sections, each one module with a `check(report, ...)`: prerequisites, configuration,
placement, transfer, pipeline.  `__main__.py` runs them in this order.
"""
