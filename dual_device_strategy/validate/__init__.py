"""Checks a set-up: `python -m dual_device_strategy.validate --data_gpu=1 --model_gpu=0`.

There are five sections: prerequisites, configuration, placement, transfer, pipeline.  Each is a
module with a `check(report, ...)`; `__main__.py` runs them in this order.  `several.py` is the
section for more than two devices; `on_hardware.py` and hardware_*.py are `--on_hardware`.
"""
