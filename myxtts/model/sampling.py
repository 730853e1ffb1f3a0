"""Draws audio codes from a GPT, one after the other.

    codes, lengths, hidden = generate(gpt, latents, text, text_lengths, temperature=0.5, seed=1)
    for codes, hidden, lengths in stream(gpt, latents, text, text_lengths, every=20): ...

Both run the same function, traced once per network for all options and lengths, and give the same
codes for the same seed.
"""

import weakref
from collections.abc import Iterator

import tensorflow as tf

_traced: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def generate(
    gpt, latents, text, text_lengths, *, max_tokens: int | None = None, seed=0, **options
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns `(codes int32 [B, N], lengths int32 [B], hidden [B, N, W])`, 0 beyond a length.

    N is the longest length, at most `max_tokens` (by default the network's limit). A row with
    `max_tokens` codes may have been cut off.

    * `temperature`: divides the logits; 0 takes the likeliest code.
    * `top_k`: only the k likeliest codes can be drawn; 0 for all.
    * `top_p`: only the likeliest codes that together have this probability can be drawn.
    * `repetition_penalty`: multiplies the log-probability of every code that this speech already
      has, before the temperature; 1 changes nothing.
    * `length_penalty`: makes the end of speech this many times less likely at every step: values
      above 1 give longer speech, values below 1 shorter speech.
    * `seed`: an integer; the same seed gives the same codes.
    """
    begin, advance = traced(gpt)
    max_tokens = _checked(gpt, text, max_tokens)
    settings = _settings(seed, **options)
    state = begin(latents, text, text_lengths, tf.constant(max_tokens))
    state = advance(state, settings, tf.constant(max_tokens))
    count = tf.reduce_max(state["lengths"])
    return state["codes"][:, :count], state["lengths"], state["hidden"][:, :count]


def stream(
    gpt,
    latents,
    text,
    text_lengths,
    *,
    every: int = 20,
    first: int | None = None,
    max_tokens: int | None = None,
    seed=0,
    **options,
) -> Iterator[tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
    """Yields what `generate` returns in pieces: the `first` codes, then `every` codes at a time.

    Each piece is `(codes [B, n], hidden [B, n, W], lengths [B])` with the new codes only. A length
    counts the codes of that speech from its beginning.
    """
    begin, advance = traced(gpt)
    max_tokens = _checked(gpt, text, max_tokens)
    settings = _settings(seed, **options)
    state = begin(latents, text, text_lengths, tf.constant(max_tokens))
    given, until = 0, every if first is None else first
    while given < max_tokens:
        state = advance(state, settings, tf.constant(min(until, max_tokens)))
        count = int(tf.reduce_max(state["lengths"]))
        if count > given:
            yield state["codes"][:, given:count], state["hidden"][:, given:count], state["lengths"]
        if bool(tf.reduce_all(state["done"])):
            return
        given, until = count, until + every


def _checked(gpt, text, max_tokens) -> int:
    limit = gpt.max_codes
    max_tokens = limit if max_tokens is None else max_tokens
    if not 1 <= max_tokens <= limit:
        raise ValueError(f"max_tokens must be between 1 and {limit}, got {max_tokens}")
    if text.shape[1] is not None and text.shape[1] > gpt.max_text_tokens:
        raise ValueError(
            f"the text has {text.shape[1]} tokens, the network reads at most "
            f"{gpt.max_text_tokens}; split it"
        )
    return max_tokens


def _settings(
    seed,
    *,
    temperature=1.0,
    top_k=0,
    top_p=1.0,
    repetition_penalty=1.0,
    length_penalty=1.0,
) -> dict:
    for name, value, low, high in (
        ("temperature", temperature, 0.0, None),
        ("top_k", top_k, 0, None),
        ("top_p", top_p, 0.0, 1.0),
        ("repetition_penalty", repetition_penalty, 0.0, None),
        ("length_penalty", length_penalty, 0.0, None),
    ):
        lowest_allowed = name in ("temperature", "top_k")
        fits = value >= low if lowest_allowed else value > low
        if not fits or (high is not None and value > high):
            needed = ("at least " if lowest_allowed else "above ") + f"{low:g}"
            needed += "" if high is None else f" and at most {high:g}"
            raise ValueError(f"{name} must be {needed}, got {value}")
    return {
        "temperature": tf.constant(temperature, tf.float32),
        "top_k": tf.constant(top_k, tf.int32),
        "top_p": tf.constant(top_p, tf.float32),
        "repetition_penalty": tf.constant(repetition_penalty, tf.float32),
        "length_penalty": tf.constant(length_penalty, tf.float32),
        "seed": tf.convert_to_tensor(seed, tf.int32),
    }


def traced(gpt):
    """`begin` and `advance` of this network, traced when first used."""
    if gpt not in _traced:
        _traced[gpt] = _trace(weakref.proxy(gpt))
    return _traced[gpt]


def _trace(gpt):
    width = gpt.config.width

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None, width], tf.float32),
            tf.TensorSpec([None, None], tf.int32),
            tf.TensorSpec([None], tf.int32),
            tf.TensorSpec([], tf.int32),
        ],
        autograph=False,
    )
    def begin(latents, text, text_lengths, max_tokens):
        logits, _, cache = gpt.start(latents, text, text_lengths, max_tokens)
        batch = tf.shape(text)[0]
        return {
            "logits": logits,
            "cache": cache,
            "codes": tf.zeros([batch, max_tokens], tf.int32),
            "hidden": tf.zeros([batch, max_tokens, width], gpt.compute_dtype),
            "lengths": tf.zeros([batch], tf.int32),
            "done": tf.zeros([batch], tf.bool),
            "used": tf.zeros([batch, gpt.audio_codes + 1]),
            "step": tf.constant(0),
        }

    def spec(values):
        return tf.nest.map_structure(lambda value: tf.TensorSpec(value.shape, value.dtype), values)

    # What `begin` returns, with the sizes open that its signature leaves open.
    state = spec(begin.get_concrete_function().structured_outputs)

    signature = [state, spec(_settings(0)), tf.TensorSpec([], tf.int32)]

    @tf.function(input_signature=signature, autograph=False)
    def advance(state, settings, until):
        def going(state):
            return (state["step"] < until) & ~tf.reduce_all(state["done"])

        def one(state):
            return (_one_code(gpt, state, settings),)

        return tf.while_loop(going, one, (state,), parallel_iterations=1)[0]

    return begin, advance


def _one_code(gpt, state, settings):
    step, done = state["step"], state["done"]
    code = draw(
        state["logits"], used=state["used"], step=step, settings=settings, stop_code=gpt.stop_code
    )
    stopped = done | (code == gpt.stop_code)
    code = tf.where(stopped, 0, code)
    logits, hidden, cache = gpt.next(code, state["cache"])
    hidden = tf.where(stopped[:, None], tf.zeros_like(hidden), hidden)
    here = tf.range(tf.shape(state["codes"])[1]) == step
    used = tf.maximum(state["used"], tf.one_hot(code, gpt.audio_codes + 1))
    return {
        "logits": logits,
        "cache": cache,
        "codes": tf.where(here, code[:, None], state["codes"]),
        "hidden": tf.where(here[:, None], hidden[:, None], state["hidden"]),
        "lengths": state["lengths"] + tf.cast(~stopped, tf.int32),
        "done": stopped,
        "used": used,
        "step": step + 1,
    }


def draw(logits, *, used, step, settings, stop_code: int) -> tf.Tensor:
    """One code per row of `logits [B, codes + 1]`, drawn as `generate` says; `used` is 1 for codes
    that were drawn before."""
    logits = tf.nn.log_softmax(logits)
    logits *= 1.0 + used * (settings["repetition_penalty"] - 1.0)
    is_stop = tf.one_hot(stop_code, tf.shape(logits)[1])
    logits -= is_stop * tf.math.log(settings["length_penalty"])
    # Speech has at least one code.
    logits -= tf.where(step == 0, 1e9, 0.0) * is_stop
    best = tf.argmax(logits, -1, tf.int32)
    temperature = settings["temperature"]
    logits = tf.nn.log_softmax(logits / tf.maximum(temperature, 1e-6))
    logits = _only_likely(logits, settings["top_k"], settings["top_p"])
    lots = tf.random.stateless_uniform(
        tf.shape(logits), tf.stack([settings["seed"], step]), minval=1e-20
    )
    drawn = tf.argmax(logits - tf.math.log(-tf.math.log(lots)), -1, tf.int32)
    return tf.where(temperature > 0, drawn, best)


def _only_likely(logits, top_k, top_p):
    count = tf.shape(logits)[1]
    ordered, _ = tf.math.top_k(logits, count)
    shares = tf.nn.softmax(ordered)
    before = tf.cumsum(shares, axis=1, exclusive=True)
    # The likeliest code always stays.
    place = tf.range(count)
    kept = ((place < tf.where(top_k > 0, top_k, count))[None] & (before < top_p)) | (place == 0)
    lowest = tf.reduce_min(tf.where(kept, ordered, float("inf")), 1, keepdims=True)
    return tf.where(logits >= lowest, logits, -1e9)


def most_codes(gpt, tokens: int | tf.Tensor) -> tf.Tensor:
    """The most codes for a text; it ends a voice that has not learnt to stop. No speech takes 12
    codes per token."""
    return tf.minimum(gpt.max_codes, 40 + 12 * tokens)
