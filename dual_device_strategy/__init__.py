"""Prepare batches on one device while another one trains."""

from dual_device_strategy.front_end import on_data_device
from dual_device_strategy.strategy import DataModelSplitStrategy, data_scope

__all__ = ["DataModelSplitStrategy", "data_scope", "on_data_device"]
