"""Draws audio codes from the published GPT as the published code does.

    for codes, latents, done in stream(gpt, latents, text, text_lengths, first=8, every=20): ...

One utterance at a time. The loop is traced once per network, for all options and lengths. The steps
themselves give the latents; the published code reads all codes a second time for them, with the
same result.
"""

import weakref
from collections.abc import Iterator

import tensorflow as tf

_traced: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
# In the published code's list of ids so far, this id stands for latents and text. So it is
# penalised as a repetition from the first step on, and so is the start.
_PREFIX_ID = 1


def stream(
    gpt,
    latents: tf.Tensor,
    text: tf.Tensor,
    *,
    first: int,
    every: int,
    max_codes: int | None = None,
    seed: int = 0,
    **options,
) -> Iterator[tuple[tf.Tensor, tf.Tensor, bool]]:
    """`(codes int32 [n], latents [1, n, W], done)`: `first` codes, then `every` at a time.

    The last code of speech that ended is the stop, and is heard; speech that was cut off at
    `max_codes` has none. Takes text int32 [1, L] and latents [1, 32, W]. Options:

    * `temperature`: divides the scores; 0 takes the likeliest code.
    * `top_k`: only the k likeliest codes can be drawn; 0 for all.
    * `top_p`: of those, only the likeliest ones with this total probability can be drawn.
    * `repetition_penalty`: divides the scores above 0 of all codes so far and multiplies those
      below 0, before anything else; 1 changes nothing.
    * `seed`: the same seed gives the same codes.
    """
    begin, advance = traced(gpt)
    limit = gpt.max_codes if max_codes is None else max_codes
    if not 1 <= limit <= gpt.max_codes:
        raise ValueError(f"max_codes must be between 1 and {gpt.max_codes}, got {limit}")
    settings = _settings(seed, **options)
    state = begin(latents, text, settings, tf.constant(limit))
    yielded, until = 0, first
    while True:
        state = advance(state, settings, tf.constant(min(until, limit)))
        count = int(state["count"])
        done = bool(state["done"]) or count == limit
        yield state["codes"][yielded:count], state["latents"][None, yielded:count], done
        if done:
            return
        yielded, until = count, count + every


def traced(gpt):
    """`begin` and `advance` of this network, traced when first used."""
    if gpt not in _traced:
        _traced[gpt] = _trace(weakref.proxy(gpt))
    return _traced[gpt]


def filtered(logits: tf.Tensor, used: tf.Tensor, settings: dict) -> tf.Tensor:
    """Scores [B, codes], -inf for codes that must not be drawn; `used` is True for codes that were
    drawn before."""
    logits = punished(logits, used, settings["repetition_penalty"])
    logits /= tf.maximum(settings["temperature"], 1e-6)
    count = tf.shape(logits)[1]
    ordered, _ = tf.math.top_k(logits, count)
    top_k = tf.where(settings["top_k"] > 0, tf.minimum(settings["top_k"], count), count)
    kept = ordered >= ordered[:, top_k - 1, None]
    shares = tf.nn.softmax(tf.where(kept, ordered, -float("inf")))
    before = tf.cumsum(shares, axis=1, exclusive=True)
    # The likeliest code always stays.
    kept = (kept & (before < settings["top_p"])) | (tf.range(count)[None] == 0)
    lowest = tf.reduce_min(tf.where(kept, ordered, float("inf")), 1, keepdims=True)
    return tf.where(logits >= lowest, logits, -float("inf"))


def punished(logits: tf.Tensor, used: tf.Tensor, penalty: tf.Tensor) -> tf.Tensor:
    """The logits, with `used` codes made less likely."""
    return tf.where(used, tf.where(logits < 0, logits * penalty, logits / penalty), logits)


def _settings(seed, *, temperature=1.0, top_k=0, top_p=1.0, repetition_penalty=1.0) -> dict:
    return {
        "temperature": tf.constant(temperature, tf.float32),
        "top_k": tf.constant(top_k, tf.int32),
        "top_p": tf.constant(top_p, tf.float32),
        "repetition_penalty": tf.constant(repetition_penalty, tf.float32),
        "seed": tf.convert_to_tensor(seed, tf.int32),
    }


def _trace(gpt):
    width, ids = gpt.args.gpt_n_model_channels, gpt.args.gpt_num_audio_tokens

    def spec(values):
        return tf.nest.map_structure(lambda value: tf.TensorSpec(value.shape, value.dtype), values)

    settings_spec = spec(_settings(0))

    @tf.function(
        input_signature=[
            tf.TensorSpec([1, None, width], tf.float32),
            tf.TensorSpec([1, None], tf.int32),
            settings_spec,
            tf.TensorSpec([], tf.int32),
        ],
        autograph=False,
    )
    def begin(latents, text, settings, limit):
        logits, latent, cache = gpt.start(latents, text, tf.shape(text)[1:], limit)
        used = tf.one_hot(_PREFIX_ID, ids) + tf.one_hot(gpt.start_code, ids) > 0
        state = {
            "cache": cache,
            "code": tf.zeros([1], tf.int32),
            "codes": tf.zeros([limit], tf.int32),
            "latents": tf.zeros([limit, width]),
            "used": used[None],
            "count": tf.constant(0),
            "done": tf.constant(False),
        }
        return _with_code(gpt, state=state, logits=logits, latent=latent, settings=settings)

    # What `begin` returns, with the sizes open that its signature leaves open.
    state_spec = spec(begin.get_concrete_function().structured_outputs)

    signature = [state_spec, settings_spec, tf.TensorSpec([], tf.int32)]

    @tf.function(input_signature=signature, autograph=False)
    def advance(state, settings, until):
        def going(state):
            return (state["count"] < until) & ~state["done"]

        def one(state):
            logits, latent, cache = gpt.next(state["code"], state["cache"])
            state = {**state, "cache": cache}
            return (_with_code(gpt, state=state, logits=logits, latent=latent, settings=settings),)

        return tf.while_loop(going, one, (state,), parallel_iterations=1)[0]

    return begin, advance


def _with_code(gpt, *, state, logits, latent, settings) -> dict:
    """The state after one more code, with the latent that predicted it."""
    count = state["count"]
    code = _drawn(logits, state["used"], count, settings)
    here = tf.range(tf.shape(state["codes"])[0]) == count
    return {
        "cache": state["cache"],
        "code": code,
        "codes": tf.where(here, code, state["codes"]),
        "latents": tf.where(here[:, None], tf.cast(latent, tf.float32), state["latents"]),
        "used": state["used"] | (tf.one_hot(code, tf.shape(logits)[1]) > 0),
        "count": count + 1,
        "done": code[0] == gpt.stop_code,
    }


def _drawn(logits, used, step, settings):
    best = tf.argmax(punished(logits, used, settings["repetition_penalty"]), -1, tf.int32)
    lots = tf.random.stateless_uniform(
        tf.shape(logits), tf.stack([settings["seed"], step]), minval=1e-20
    )
    scores = filtered(logits, used, settings)
    drawn = tf.argmax(scores - tf.math.log(-tf.math.log(lots)), -1, tf.int32)
    return tf.where(settings["temperature"] > 0, drawn, best)
