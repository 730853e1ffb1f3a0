"""What TensorFlow's own test bases ask of a strategy with one replica, eagerly and in graphs."""

import tensorflow as tf
from tensorflow.python.distribute import combinations, strategy_test_lib

from dual_device_strategy import DataModelSplitStrategy

ON_CPUS = combinations.NamedDistribution("CPUs", lambda: DataModelSplitStrategy("CPU:1", "CPU:2"))
ON_GPUS = combinations.NamedDistribution("GPUs", lambda: DataModelSplitStrategy("GPU:0", "GPU:1"))


@combinations.generate(
    combinations.combine(distribution=[ON_CPUS, ON_GPUS], mode=["eager", "graph"])
)
class OneReplicaTest(
    strategy_test_lib.DistributionTestBase, strategy_test_lib.OneDeviceDistributionTestBase
):
    def test_a_loss_is_minimized_through_the_extended_interface(self, distribution):
        if tf.executing_eagerly():
            self._test_minimize_loss_eager(distribution)
        else:
            self._test_minimize_loss_graph(distribution, soft_placement=True)

    def test_the_only_replica_has_the_id_0(self, distribution):
        self._test_replica_id(distribution)

    def test_exceptions_leave_replica_functions_and_merge_calls(self, distribution):
        self._test_call_and_merge_exceptions(distribution)

    def test_an_input_function_gets_the_context_of_one_pipeline_and_one_replica(self, distribution):
        if not tf.executing_eagerly():
            self.skipTest("distributed datasets are iterated eagerly or in a tf.function")
        input_fn = self._input_fn_to_test_input_context(
            lambda: tf.data.Dataset.range(10),
            expected_num_replicas_in_sync=1,
            expected_num_input_pipelines=1,
            expected_input_pipeline_id=0,
        )
        self._test_input_fn_iterable(distribution, input_fn, [[i] for i in range(10)])

    def test_run_calls_the_function_once_in_a_replica_context(self, distribution):
        self._test_run(distribution)

    def test_all_reduce_sum_and_its_gradients(self, distribution):
        self._test_all_reduce_sum(distribution)
        self._test_all_reduce_sum_gradients(distribution)
        self._test_all_reduce_sum_gradient_tape(distribution)

    def test_all_reduce_mean_and_its_gradients(self, distribution):
        self._test_all_reduce_mean(distribution)
        self._test_all_reduce_mean_gradients(distribution)
        self._test_all_reduce_mean_gradient_tape(distribution)

    def test_a_variable_synchronized_on_read_is_not_trainable_unless_asked(self, distribution):
        self._test_trainable_variable(distribution)

    def test_a_step_counter_of_the_first_replica_counts_once(self, distribution):
        self._test_global_step_update(distribution)

    def test_a_summary_is_written_once(self, distribution):
        self._test_summary_for_replica_zero_only(distribution)
