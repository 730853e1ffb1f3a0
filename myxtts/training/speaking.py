"""Says the fixed texts that a run is listened to by."""

import tensorflow as tf
from absl import logging

from myxtts.model.sampling import generate

# Enough chance that the voice does not drone, too little for gibberish.
_OPTIONS = {"temperature": 0.5, "top_k": 50, "top_p": 0.9}


def speak(exhibits, tokenizer, conditioning, gpt) -> dict[str, tf.Tensor]:
    """The mel of every evaluation text by name, in the voice of a held-out clip."""
    mels = {}
    limit = gpt.config.max_audio_tokens
    for number, (ids, (reference, length)) in enumerate(exhibits.spoken()):
        text, text_lengths = tf.constant([ids], tf.int32), tf.constant([len(ids)])
        latents = tf.cast(conditioning(reference, length), tf.float32)  # of half precision too
        # A voice that has not learnt to stop yet is stopped: nobody takes 12 codes a token.
        most = min(limit, 40 + 12 * len(ids))
        codes, lengths, _ = generate(
            gpt, latents, text, text_lengths, max_tokens=most, seed=number + 1, **_OPTIONS
        )
        if int(lengths[0]) == 0:
            logging.info("text%d was answered with silence", number)
            continue
        mels[f"text{number}"] = tokenizer.decode(codes, lengths)[0]
    return mels
