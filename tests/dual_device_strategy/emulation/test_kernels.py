"""Ordinary ops placed on an emulated GPU give the CPU kernels' results."""

import numpy as np
import pytest
import tensorflow as tf

RANDOM = np.random.RandomState(0)
A, B = RANDOM.randn(2, 8, 8).astype("float32")
AUDIO = RANDOM.randn(2, 4096).astype("float32")
INDICES = np.array([[0, 1], [7, 2], [3, 3]], "int32")


def stft(audio):
    return tf.signal.stft(audio, 512, 128, 512)


def mel(audio):
    matrix = tf.signal.linear_to_mel_weight_matrix(40, 257, 16000)
    return tf.math.log(tf.abs(stft(audio)) @ matrix + 1e-5)


def inverse_stft(audio):
    window = tf.signal.inverse_stft_window_fn(128)
    return tf.signal.inverse_stft(stft(audio), 512, 128, 512, window_fn=window)


def tensor_array(x):
    rows = tf.TensorArray(tf.float32, 8)
    for i in tf.range(8):
        rows = rows.write(i, x[i] * 2)
    return rows.stack()


def in_dtype(dtype):
    def matmul_and_softmax(x):
        x = tf.cast(x * 0.1, dtype)
        return tf.cast(tf.nn.softmax(tf.nn.gelu(x @ x + 1)), tf.float32)

    return matmul_and_softmax


def convolutions(x):
    y = tf.nn.relu(tf.nn.bias_add(tf.nn.conv1d(x[None], x[None], 1, "SAME"), tf.ones([8])))
    y = tf.nn.conv1d_transpose(y, x[:3, :, None] * tf.ones([1, 1, 8]), [1, 16, 8], 2)
    image = tf.nn.conv2d(y[..., None], tf.ones([3, 3, 1, 2]), 2, "SAME")
    return tf.nn.max_pool2d(image, 2, 2, "SAME") + tf.nn.avg_pool2d(image, 2, 2, "SAME")


def gather_and_scatter(x):
    rows = tf.gather(x, [3, 1]) + tf.gather_nd(x, INDICES)[:2, None]
    added = tf.tensor_scatter_nd_add(x, INDICES, [1.0, 2.0, 3.0])
    scattered = tf.scatter_nd(INDICES, [1.0, 2.0, 3.0], [8, 8])
    segments = tf.math.unsorted_segment_sum(x, [0, 1, 0, 1, 2, 2, 0, 1], 3)
    return tf.concat([rows, added, scattered, segments, tf.gather(x, [[1]], batch_dims=0)[0]], 0)


def reductions(x):
    return tf.stack(
        [
            tf.reduce_sum(x),
            tf.reduce_mean(x),
            tf.reduce_max(x, 0)[1],
            tf.reduce_min(x, 1)[2],
            tf.reduce_prod(x[0, :3]),
            tf.math.reduce_std(x),
            tf.reduce_logsumexp(x),
            tf.norm(x),
            tf.cast(tf.argmax(x, -1)[0], tf.float32),
            tf.cast(tf.reduce_any(x > 1), tf.float32),
        ]
    )


def seeded_random(x):
    tf.random.set_seed(3)
    drawn = tf.random.normal([8, 8], seed=1) + tf.random.uniform([8, 8], seed=2)
    stateless = tf.random.stateless_normal([8, 8], [1, 2])
    return drawn + stateless + tf.nn.experimental.stateless_dropout(x, 0.3, [1, 2])


def loop(x):
    return tf.while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 0.9 + x[0]), [0, x])[1]


def branch(x):
    big = tf.cond(tf.reduce_sum(x) > 100, lambda: x - 1, lambda: x + 1)
    return tf.switch_case(tf.constant(1), [lambda: big, lambda: big * 2])


def shapes(x):
    y = tf.pad(tf.transpose(tf.reshape(x, [4, 4, 4]), [2, 0, 1]), [[0, 0], [1, 1], [2, 0]])
    parts = tf.split(tf.repeat(tf.tile(y, [1, 1, 2]), 2, 0), 2, 0)
    return tf.stack(parts)[:, ::2, 1:, ...] + tf.reverse(tf.roll(y, 1, 0), [0])[0, 0, 0]


def attention(x):
    scores = tf.einsum("ij,kj->ik", x, x) / 3.0
    causal = tf.linalg.band_part(tf.ones([8, 8]), -1, 0)
    return tf.matmul(tf.nn.softmax(tf.where(causal > 0, scores, -1e9)), x)


def losses(x):
    labels = tf.constant([1, 2, 3, 4, 5, 6, 7, 0])
    sparse = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, x)
    dense = tf.nn.softmax_cross_entropy_with_logits(tf.one_hot(labels, 8), x)
    sigmoid = tf.nn.sigmoid_cross_entropy_with_logits(tf.ones([8, 8]), x)
    values, places = tf.math.top_k(x, 3)
    return sparse + dense + sigmoid[0] + values[:, 0] + tf.cast(places[:, 1], tf.float32)


def integers(x):
    whole = tf.cast(x * 10, tf.int32)
    return tf.cast(tf.cumsum(whole // 3 + tf.cast(tf.size(x), tf.int32), 1), tf.float32)


def norms(x):
    mean, variance = tf.nn.moments(x, [0])
    clipped, norm = tf.clip_by_global_norm([x, x * 2], 1.0)
    return tf.nn.batch_normalization(x, mean, variance, 0.0, 1.0, 1e-3) + clipped[1] + norm


def ctc(x):
    logits = tf.reshape(tf.tile(x, [5, 1]), [2, 20, 8])
    return tf.nn.ctc_loss(
        [[1, 2, 3], [2, 4, 1]], logits, [3, 3], [20, 20], logits_time_major=False, blank_index=0
    )


@tf.function  # for which TensorFlow would choose cuDNN's on a GPU
def sparse_ctc(x):
    labels = tf.sparse.from_dense([[1, 2, 3], [2, 4, 1]])
    logits = tf.reshape(tf.tile(x, [5, 1]), [2, 20, 8])
    return tf.nn.ctc_loss(labels, logits, None, [20, 20], logits_time_major=False, blank_index=0)


def linear_algebra(x):
    square = x @ tf.transpose(x) + tf.eye(8)
    return tf.linalg.cholesky(square) + tf.linalg.inv(square) + tf.linalg.solve(square, x)


def sorting(x):
    values, indices = tf.unique(tf.cast(x[0], tf.int32))
    found = tf.searchsorted(tf.sort(x[0]), x[1])
    return (
        tf.cast(found + indices + tf.reduce_sum(values), tf.float32) + tf.boolean_mask(x, x > 1)[0]
    )


def rearranged(x):
    return tf.nn.space_to_depth(tf.reshape(x, [1, 8, 8, 1]), 2) + tf.cumsum(
        tf.reshape(tf.nn.depth_to_space(tf.reshape(x, [1, 4, 4, 4]), 2), [1, 4, 4, 4]), 1
    )


def complex_numbers(x):
    z = tf.complex(x, x * 2)
    return tf.abs(tf.signal.ifft(tf.signal.fft(z) * tf.math.conj(z))) + tf.math.angle(z)


CASES = {
    **{f.__name__: (f, A) for f in (convolutions, gather_and_scatter, reductions, seeded_random)},
    **{f.__name__: (f, A) for f in (loop, branch, tensor_array, shapes, attention, losses, norms)},
    **{f.__name__: (f, A) for f in (integers, ctc, linear_algebra, sorting, rearranged)},
    **{f.__name__: (f, AUDIO) for f in (mel, inverse_stft)},
    "stft": (lambda x: tf.abs(stft(x)), AUDIO),
    "complex_numbers": (complex_numbers, A),
    "sparse_ctc": (sparse_ctc, A),
    "float16": (in_dtype(tf.float16), A),
    "bfloat16": (in_dtype(tf.bfloat16), A),
    "float64": (in_dtype(tf.float64), A),
}


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
@pytest.mark.parametrize("name", CASES)
def test_an_op_on_an_emulated_gpu_gives_the_cpu_result(name, traced):
    compute, argument = CASES[name]
    results = []
    for device in ("/CPU:0", "/GPU:1"):
        call = tf.function(compute) if traced else compute
        with tf.device(device):
            results.append(call(tf.constant(argument)))
    assert results[1].device.endswith("GPU:1")
    # TensorFlow's CPU device may use oneDNN, which rounds a half-sized float elsewhere.
    close = {"bfloat16": 2**-7, "float16": 2**-9}.get(name, 1e-4)
    np.testing.assert_allclose(results[1], results[0], rtol=close, atol=1e-4)


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
def test_gradients_on_an_emulated_gpu_are_the_cpu_gradients(traced):
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = attention(x) + convolutions(x)[0, 0, 0, 0] + norms(x) + reductions(x)[1]
            value = tf.reduce_sum(y * tf.gather_nd(x, INDICES)[0]) + tf.reduce_sum(losses(x))
        return tape.gradient(value, x)

    results = []
    for device in ("/CPU:0", "/GPU:0"):
        call = tf.function(gradient) if traced else gradient
        with tf.device(device):
            results.append(call(tf.constant(A)))
    np.testing.assert_allclose(results[1], results[0], rtol=1e-4, atol=1e-4)


def test_strings_and_their_ops_run_beside_an_emulated_gpu():
    with tf.device("/GPU:1"):
        joined = tf.strings.join(["a", tf.strings.as_string(tf.constant(3))])
    assert joined.numpy() == b"a3"


def test_an_op_that_needs_cuda_says_so_in_a_sentence():
    x = tf.ones([2, 3, 4])
    weights = tf.ones([100])
    with (
        tf.device("/GPU:0"),
        pytest.raises(tf.errors.OpError, match=r"(?s)CudnnRNN.*(emulated GPU|no regist)"),
    ):
        tf.raw_ops.CudnnRNN(input=x, input_h=x, input_c=x, params=weights)
