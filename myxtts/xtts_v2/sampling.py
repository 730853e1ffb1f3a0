"""Draws audio codes from the published GPT as the published code does.

    for codes, latents, done in stream(gpt, latents, text, text_lengths, first=8, every=20): ...

One utterance at a time. The loop is traced once per network, for all options and lengths. The steps
themselves give the latents; the published code reads all codes a second time for them, with the
same result.
"""

from collections.abc import Iterator

import tensorflow as tf

from myxtts import UserError
from myxtts.model.sampling import drawn, likely, settings_of, spec, traced

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
    begin, advance = traced(gpt, _begin, _one_code)
    limit = gpt.max_codes if max_codes is None else max_codes
    if not 1 <= limit <= gpt.max_codes:
        raise ValueError(f"max_codes must be between 1 and {gpt.max_codes}, got {limit}")
    if options.get("length_penalty", 1.0) != 1.0:
        raise UserError(
            "length_penalty does nothing in XTTS v2 but in a beam search, which is not done here; "
            "leave it at 1"
        )
    settings = settings_of(seed, **options)
    state = begin(latents, text, settings, tf.constant(limit))
    yielded, until = 0, first
    while True:
        state = advance(state, settings, tf.constant(min(until, limit)))
        count = int(state["step"])
        done = bool(state["done"][0]) or count == limit
        yield state["codes"][yielded:count], state["latents"][None, yielded:count], done
        if done:
            return
        yielded, until = count, count + every


def filtered(logits: tf.Tensor, used: tf.Tensor, settings: dict) -> tf.Tensor:
    """Scores [B, codes], -inf for codes that must not be drawn; `used` is True for codes that were
    drawn before."""
    logits = punished(logits, used, settings["repetition_penalty"])
    logits /= tf.maximum(settings["temperature"], 1e-6)
    return likely(logits, settings, top_p_of_rest=True)


def punished(logits: tf.Tensor, used: tf.Tensor, penalty: tf.Tensor) -> tf.Tensor:
    """The logits, with `used` codes made less likely."""
    return tf.where(used, tf.where(logits < 0, logits * penalty, logits / penalty), logits)


def _begin(gpt):
    width, ids = gpt.args.gpt_n_model_channels, gpt.args.gpt_num_audio_tokens

    @tf.function(
        input_signature=[
            tf.TensorSpec([1, None, width], tf.float32),
            tf.TensorSpec([1, None], tf.int32),
            spec(settings_of()),
            tf.TensorSpec([], tf.int32),
        ],
        autograph=False,
    )
    def begin(latents, text, settings, limit):
        logits, latent, cache = gpt.start(latents, text, tf.shape(text)[1:], limit)
        used = tf.one_hot(_PREFIX_ID, ids) + tf.one_hot(gpt.start_code, ids) > 0
        state = {
            "code": tf.zeros([1], tf.int32),
            "codes": tf.zeros([limit], tf.int32),
            "latents": tf.zeros([limit, width]),
            "used": used[None],
            "step": tf.constant(0),
            "done": tf.zeros([1], tf.bool),
        }
        return _with_code(gpt, state, settings, logits=logits, latent=latent, cache=cache)

    return begin


def _one_code(gpt, state, settings):
    logits, latent, cache = gpt.next(state["code"], state["cache"])
    return _with_code(gpt, state, settings, logits=logits, latent=latent, cache=cache)


def _with_code(gpt, state, settings, *, logits, latent, cache) -> dict:
    """The state after one more code, with the latent that predicted it."""
    step, used = state["step"], state["used"]
    best = tf.argmax(punished(logits, used, settings["repetition_penalty"]), -1, tf.int32)
    code = drawn(filtered(logits, used, settings), best, step, settings)
    here = tf.range(tf.shape(state["codes"])[0]) == step
    latent = tf.cast(latent, tf.float32)
    return {
        "cache": cache,
        "code": code,
        "codes": tf.where(here, code, state["codes"]),
        "latents": tf.where(here[:, None], latent, state["latents"]),
        "used": used | (tf.one_hot(code, tf.shape(logits)[1]) > 0),
        "step": step + 1,
        "done": code == gpt.stop_code,
    }
