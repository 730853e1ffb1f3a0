"""The clips and texts by which a run is looked at and listened to.

They are chosen from the held-out clips, the same ones every time, so that the samples of two
moments, or of two runs, can be compared. Each stage shows them in its own way (`Stage.show`).
"""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import soundfile
import tensorflow as tf
from absl import logging

from myxtts.config import AudioConfig, BatchConfig, FeatureConfig, Speaking
from myxtts.corpus.batches import read_batches
from myxtts.corpus.manifest import Corpus
from myxtts.corpus.plan import BatchPlan
from myxtts.corpus.texts import encode_texts
from myxtts.features import make_features
from myxtts.model.sampling import generate, most_codes
from myxtts.text.vocabulary import Vocabulary
from myxtts.training.config import TrainConfig
from myxtts.training.pictures import attention_picture, mel_picture
from myxtts.training.reports import Board

_CLIPS = 3
Reference = tuple[tf.Tensor, tf.Tensor]  # mel [1, frames, mels] and its length [1]


@dataclasses.dataclass
class Exhibits:
    """What a stage shows, and where it puts what it made of it.

    Use `Exhibits.chosen`; in `Stage.show` give pictures to `mel` and `attention`, waveforms to
    `sound`.

    Attributes:
      strategy: to run networks under.
      clips: a batch of a few clips with features and waveforms, not cut.
      texts: token ids, and the number of the clip whose voice says them.
      said: the spoken texts by name: "clip0" and so on, and "text0" and so on.
      tokens: of each clip, its text token by token.
      step: the step that is shown.
      directory: for sounds and texts; None where another process writes them.
    """

    strategy: tf.distribute.Strategy
    clips: dict
    texts: list[tuple[list[int], int]]
    said: dict[str, str]
    tokens: list[list[str]]
    audio: AudioConfig
    board: Board | None = None
    directory: Path | None = None
    step: int = 0

    @classmethod
    def chosen(
        cls,
        strategy: tf.distribute.Strategy,
        config: TrainConfig,
        corpus: Corpus,
        vocabulary: Vocabulary,
        *,
        texts: Sequence[tuple[str, str]],
    ) -> "Exhibits":
        """From a corpus, the same ones in every run and after every interruption. Without `texts`,
        pairs of text and language, clips say their own."""
        model = config.model
        most = model.text.max_tokens
        corpus, _ = encode_texts(corpus, vocabulary, most)
        places = np.linspace(0, len(corpus) - 1, min(_CLIPS, len(corpus))).astype(int)
        corpus, encoded = encode_texts(corpus.subset(places), vocabulary, most)
        plan = BatchPlan(
            corpus.samples,
            corpus.speaker_ids,
            corpus.language_ids,
            config=BatchConfig(
                batch_size=len(corpus), shuffle=False, buckets=1, drop_remainder=False
            ),
            audio=model.audio,
        )
        dataset = read_batches(corpus, encoded, plan, epochs=1, workers=1, host_prefetch=1)
        clips = make_features(FeatureConfig(model.audio))(next(iter(dataset)))
        spoken, said = [], {f"clip{i}": corpus.texts[i] for i in range(len(corpus))}
        for number, (text, language) in enumerate(texts or _own_texts(corpus)):
            same = [i for i in range(len(corpus)) if corpus.language_of(i) == language]
            clip = same[number % len(same)] if same else number % len(corpus)
            spoken.append((vocabulary.encode(text, language), clip))
            said[f"text{number}"] = text
        return cls(
            strategy=strategy,
            clips=clips,
            texts=spoken,
            said=said,
            tokens=[_written(vocabulary, encoded[i]) for i in range(len(corpus))],
            audio=model.audio,
        )

    def run(self, fn: Callable, *args):
        """What `fn`, made by `traced_once`, makes of them on the model device; of several replicas
        the first one's."""
        with self.strategy.scope():
            # A call of `fn` itself would be warned of: each stage has a function of its own.
            made = fn.get_concrete_function(*args)(*args)
        return tf.nest.map_structure(
            lambda made: self.strategy.experimental_local_results(made)[0], made
        )

    def references(self) -> dict[str, Reference]:
        """By the name of the text, the recording whose voice says it."""
        lengths, mels = (self.clips[f"conditioning_mel{s}"] for s in ("_lengths", ""))
        return {
            f"text{number}": (mels[i : i + 1, : int(lengths[i])], lengths[i : i + 1])
            for number, (_, i) in enumerate(self.texts)
        }

    def spoken(self, tokenizer, conditioning, gpt) -> dict[str, tf.Tensor]:
        """The mel of every text by name, in the voice of a clip."""
        mels = {}
        for number, (name, reference) in enumerate(self.references().items()):
            ids = self.texts[number][0]
            latents = tf.cast(conditioning(*reference), tf.float32)  # of half precision too
            codes, lengths, _ = generate(
                gpt,
                latents,
                text=tf.constant([ids], tf.int32),
                text_lengths=tf.constant([len(ids)]),
                max_tokens=int(most_codes(gpt, len(ids))),
                **Speaking(seed=number + 1).sampling(),
            )
            if int(lengths[0]) == 0:
                logging.info("%s was answered with silence", name)
                continue
            mels[name] = tokenizer.decode(codes, lengths)[0]
        return mels

    def mel(self, name: str, mel: tf.Tensor) -> None:
        if self.directory is None:
            return
        self.board.picture(self.step, name, mel_picture(np.asarray(mel), self.audio))

    def attention(self, name: str, weights: tf.Tensor, clip: int) -> None:
        """`weights [audio, text]` of a clip; the text is its own, between start and stop."""
        if self.directory is None:
            return
        frames = int(self.clips["mel_lengths"][clip])
        seconds = frames * self.audio.hop_length / self.audio.sample_rate
        tokens = ["", *self.tokens[clip], ""]
        self.board.picture(self.step, name, attention_picture(np.asarray(weights), seconds, tokens))

    def sound(self, name: str, waveform: tf.Tensor) -> None:
        """Into TensorBoard, and as a WAV file into samples/, with the text beside it; the name
        begins with one of `said`."""
        if self.directory is None:
            return
        text = next((text for begin, text in self.said.items() if name.startswith(begin)), "")
        waveform = np.clip(np.asarray(waveform, np.float32), -1.0, 1.0)
        self.board.sound(self.step, name, waveform, rate=self.audio.sample_rate, text=text)
        place = self.directory / f"step-{self.step:08d}"
        place.mkdir(parents=True, exist_ok=True)
        with open(place / f"{name}.wav", "wb") as file:  # for its errors
            soundfile.write(file, waveform, self.audio.sample_rate, subtype="PCM_16", format="WAV")
        (place / f"{name}.txt").write_text(f"{text}\n", encoding="utf-8")


def traced_once(
    fn: Callable, signature: Sequence[tf.TensorSpec] | None = None
) -> tf.types.experimental.PolymorphicFunction:
    """`fn` for `Exhibits.run`.  A stage makes it once: tracing takes longer than its samples."""

    def on_replicas(*args):
        return tf.distribute.get_strategy().run(fn, args)

    return tf.function(on_replicas, input_signature=signature, autograph=False)


def _written(vocabulary, ids: Sequence[int]) -> list[str]:
    """Token by token; a published vocabulary cannot tell, and shows nothing by tokens."""
    decode = getattr(vocabulary, "decode", lambda ids: "")
    return [decode([token]) for token in ids]


def _own_texts(corpus: Corpus) -> list[tuple[str, str]]:
    return [(corpus.texts[i], corpus.language_of(i)) for i in range(min(2, len(corpus)))]
