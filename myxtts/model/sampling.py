"""Draws audio codes from a GPT, one after the other. `xtts_v2.sampling` does it as published, with
the parts of this one.

    codes, lengths, hidden = generate(gpt, latents, text, text_lengths, temperature=0.5, seed=1)
    for codes, hidden, lengths in stream(gpt, latents, text, text_lengths, every=20): ...

Both run the same function, traced once per network for all options and lengths, and give the same
codes for the same seed.
"""

import weakref
from collections.abc import Iterator

import tensorflow as tf

from myxtts.config import Speaking

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
    settings = settings_of(seed, **options)
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
    settings = settings_of(seed, **options)
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


def settings_of(
    seed=0,
    *,
    temperature=1.0,
    top_k=0,
    top_p=1.0,
    repetition_penalty=1.0,
    length_penalty=1.0,
) -> dict:
    """The options as tensors; UserError names one that is impossible."""
    chosen = Speaking(
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        repetition_penalty=repetition_penalty,
        length_penalty=length_penalty,
        seed=seed,
    ).sampling()
    whole = ("top_k", "seed")
    return {
        name: tf.constant(value, tf.int32 if name in whole else tf.float32)
        for name, value in chosen.items()
    }


def _begin(gpt):
    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None, gpt.config.width], tf.float32),
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
            "hidden": tf.zeros([batch, max_tokens, gpt.config.width], gpt.compute_dtype),
            "lengths": tf.zeros([batch], tf.int32),
            "done": tf.zeros([batch], tf.bool),
            "used": tf.zeros([batch, gpt.audio_codes + 1]),
            "step": tf.constant(0),
        }

    return begin


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


def traced(gpt, begin_of=_begin, one_code=_one_code) -> tuple:
    """`begin` and `advance(state, settings, until)` of this network, traced when first used.

    `begin_of(gpt)` is the function that gives the first state, `one_code(gpt, state, settings)` the
    state after a code more. A state has the number of codes as `step`, and `done` for every row.
    """
    if gpt not in _traced:
        weak = weakref.proxy(gpt)
        begin = begin_of(weak)
        _traced[gpt] = begin, _advance(weak, begin, one_code)
    return _traced[gpt]


def spec(values):
    return tf.nest.map_structure(lambda value: tf.TensorSpec(value.shape, value.dtype), values)


def _advance(gpt, begin, one_code):
    # What `begin` returns, with the sizes open that its signature leaves open.
    state = spec(begin.get_concrete_function().structured_outputs)

    signature = [state, spec(settings_of()), tf.TensorSpec([], tf.int32)]

    @tf.function(input_signature=signature, autograph=False)
    def advance(state, settings, until):
        def going(state):
            return (state["step"] < until) & ~tf.reduce_all(state["done"])

        def one(state):
            return (one_code(gpt, state, settings),)

        return tf.while_loop(going, one, (state,), parallel_iterations=1)[0]

    return advance


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
    logits = tf.nn.log_softmax(logits / tf.maximum(settings["temperature"], 1e-6))
    return drawn(likely(logits, settings, top_p_of_rest=False), best, step, settings)


def drawn(scores, best, step, settings) -> tf.Tensor:
    """One code per row by its scores, or the `best` one without a temperature."""
    lots = tf.random.stateless_uniform(
        tf.shape(scores), tf.stack([settings["seed"], step]), minval=1e-20
    )
    code = tf.argmax(scores - tf.math.log(-tf.math.log(lots)), -1, tf.int32)
    return tf.where(settings["temperature"] > 0, code, best)


def likely(logits, settings, *, top_p_of_rest: bool) -> tf.Tensor:
    """The logits, -inf for codes that `top_k` and `top_p` exclude. With `top_p_of_rest`, top_p is a
    share of what top_k leaves, not of all codes."""
    count = tf.shape(logits)[1]
    ordered, _ = tf.math.top_k(logits, count)
    top_k = tf.where(settings["top_k"] > 0, tf.minimum(settings["top_k"], count), count)
    kept = ordered >= ordered[:, top_k - 1, None]
    counted = tf.where(kept, ordered, -float("inf")) if top_p_of_rest else ordered
    before = tf.cumsum(tf.nn.softmax(counted), axis=1, exclusive=True)
    # The likeliest code always stays.
    kept = (kept & (before < settings["top_p"])) | (tf.range(count)[None] == 0)
    lowest = tf.reduce_min(tf.where(kept, ordered, float("inf")), 1, keepdims=True)
    return tf.where(logits >= lowest, logits, -float("inf"))


def most_codes(gpt, tokens: int | tf.Tensor) -> tf.Tensor:
    """The most codes for a text; it ends a voice that has not learnt to stop. No speech takes 12
    codes per token."""
    return tf.minimum(gpt.max_codes, 40 + 12 * tokens)
