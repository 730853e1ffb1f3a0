"""Says the fixed texts that a run is listened to by."""

import tensorflow as tf
from absl import logging

from myxtts.config import Speaking
from myxtts.model.sampling import generate
from myxtts.model.voice import most_codes


def speak(exhibits, tokenizer, conditioning, gpt) -> dict[str, tf.Tensor]:
    """The mel of every evaluation text by name, in the voice of a held-out clip."""
    mels = {}
    for number, (ids, (reference, length)) in enumerate(exhibits.spoken()):
        text, text_lengths = tf.constant([ids], tf.int32), tf.constant([len(ids)])
        latents = tf.cast(conditioning(reference, length), tf.float32)  # of half precision too
        most = int(most_codes(gpt, len(ids)))
        options = Speaking(seed=number + 1).sampling()
        codes, lengths, _ = generate(gpt, latents, text, text_lengths, max_tokens=most, **options)
        if int(lengths[0]) == 0:
            logging.info("text%d was answered with silence", number)
            continue
        mels[f"text{number}"] = tokenizer.decode(codes, lengths)[0]
    return mels
