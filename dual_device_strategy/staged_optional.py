"""The optional that `get_next_as_optional` of our iterators returns inside a tf.function."""

import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.hop import component_specs


class StagedOptional(tf.experimental.Optional):
    """An optional batch that stays on the model device.

    TensorFlow prefers the host for ops on optionals.  If a `tf.while_loop` or `tf.cond` passes one
    on, as in Keras's `fit` with several steps per execution, the batch goes to the host and back on
    every step, and waits for the step before.  So here the optional is in a variable on the model
    device, and only the variable's handle is passed on.
    """

    def __init__(self, handle: tf.Tensor, element_spec, device: str):
        super().__init__()
        self._handle, self._element_spec, self._device = handle, element_spec, device

    @classmethod
    def of(cls, variant: tf.Tensor, element_spec, device: str) -> "StagedOptional":
        with tf.device(device):
            handle = compat.anonymous_variable(tf.variant)
            kept = tf.raw_ops.AssignVariableOp(resource=handle, value=variant)
            with tf.control_dependencies([kept]):
                return cls(tf.identity(handle), element_spec, device)

    def _variant(self):
        return tf.raw_ops.ReadVariableOp(resource=self._handle, dtype=tf.variant)

    def has_value(self, name=None):
        with tf.device(self._device):
            return tf.raw_ops.OptionalHasValue(optional=self._variant(), name=name)

    def get_value(self, name=None):
        specs = component_specs(self._element_spec)
        with tf.device(self._device):
            flat = tf.raw_ops.OptionalGetValue(
                optional=self._variant(),
                output_types=[spec.dtype for spec in specs],
                output_shapes=[spec.shape for spec in specs],
                name=name,
            )
        return tf.nest.pack_sequence_as(self._element_spec, list(flat), expand_composites=True)

    @property
    def element_spec(self):
        return self._element_spec

    @property
    def _type_spec(self):
        return StagedOptionalSpec(self._element_spec, self._device)


class StagedOptionalSpec(tf.TypeSpec):
    """Type of a `StagedOptional`."""

    def __init__(self, element_spec, device: str):
        self._element_spec, self._device = element_spec, device

    @property
    def value_type(self):
        return StagedOptional

    def _serialize(self):
        return self._element_spec, self._device

    @property
    def _component_specs(self):
        return [tf.TensorSpec([], tf.resource)]

    def _to_components(self, value):
        return [value._handle]

    def _from_components(self, components):
        return StagedOptional(*components, self._element_spec, self._device)
