"""Flags of the corpus and of its way into batches."""

from myxtts.command.flags.table import Flag
from myxtts.config import AugmentConfig, BatchConfig, PrepareConfig
from myxtts.corpus.embedded import LANGUAGES, EmbeddedConfig
from myxtts.corpus.formats import FORMATS
from myxtts.training.config import TrainConfig

CORPUS = (
    Flag(
        "train_data", "text", None,
        "Directory of the corpus to train on.",
        f"Formats: {', '.join(FORMATS)}. Without it a corpus is made by espeak-ng.",
        "source.directory", "DIR", "a corpus is made",
    ),
    Flag(
        "val_data", "text", None,
        "Directory of the corpus to measure on, in the same format.",
        "Give one where the corpus comes with a validation part.",
        "", "DIR", "a share of the training corpus, see --validation_share",
    ),
    Flag(
        "val_metadata", "text", None,
        "Metadata file inside --val_data.",
        "Name it where training and validation clips lie in one directory with two lists.",
        "", "FILE", "that of --metadata",
    ),
    Flag(
        "validation_share", "number", TrainConfig.validation_share,
        "Share of the clips kept out of training to measure on, where there is no --val_data.",
        "Lower for a large corpus: a few hundred clips are enough.",
        "train.validation_share", "SHARE",
    ),
    Flag(
        "format", ("auto", *FORMATS), "auto",
        "Format of the corpus.",
        "Name it where it is not recognised.",
        "source.format",
    ),
    Flag(
        "metadata", "text", None,
        "Metadata file inside the corpus.",
        "Name it where there are several, or where it is not found.",
        "source.metadata", "FILE", "found by its name",
    ),
    Flag(
        "audio_dir", "text", None,
        "Folder of the audio files inside the corpus.",
        "Name it where clips are reported missing.",
        "source.audio_dir", "DIR", "found by its name",
    ),
    Flag(
        "language", "text", "en",
        "Language of the clips whose metadata names none, as a code such as en or fa.",
        "Set it for a corpus in another language.",
        "source.language", "CODE",
    ),
    Flag(
        "speaker", "text", None,
        "Speaker of the clips whose metadata names none.",
        "Set it where several corpora of one speaker shall count as one voice.",
        "source.speaker", "NAME", "the corpus directory's name",
    ),
    Flag(
        "prepared_dir", "text", None,
        "Where the manifest and the copies at 22,050 Hz go.",
        "Set it where the corpus is read-only or its disk is slow.",
        "", "DIR", "prepared/ inside the corpus",
    ),
    Flag(
        "min_seconds", "number", PrepareConfig.min_seconds,
        "Shorter clips are left out.",
        "Raise it where very short clips are mostly noise.",
        "prepare.min_seconds", "SECONDS",
    ),
    Flag(
        "max_seconds", "number", PrepareConfig.max_seconds,
        "Longer clips are left out.",
        "Lower it where memory is short: the longest clips decide the largest batch.",
        "prepare.max_seconds", "SECONDS",
    ),
    Flag(
        "max_rejected", "number", 0.2,
        "Largest share of bad clips to go on with.",
        "Raise it once you have seen in rejected.tsv why clips are left out.",
        "", "SHARE",
        least=0,
    ),
    Flag(
        "trim_silence", "number", None,
        "Cut off silence at both ends of each clip: all that is this many dB below the peak.",
        "30 to 40 for recordings with long pauses at their ends.",
        "prepare.trim_silence_db", "DB", "no trimming",
    ),
    Flag(
        "loudness", "number", None,
        "Bring every clip to this loudness, in dBFS (RMS).",
        "-23 for corpora whose speakers differ in level.",
        "prepare.loudness_dbfs", "DBFS", "as recorded",
    ),
)

EMBEDDED = (
    Flag(
        "embedded_dir", "text", "runs/embedded_corpus",
        "Where the corpus is made when there is no --train_data.",
        "", "", "DIR",
    ),
    Flag(
        "embedded_minutes", "number", None,
        "How much speech to make; a minute of it takes 0.2 s to make and 2.6 MB.",
        "Less where the disk is small.",
        "embedded.minutes", "MINUTES",
        f"{EmbeddedConfig.minutes:g}; for longer runs than 10 minutes 24 a minute",
        least=0.1,
    ),
    Flag(
        "embedded_voices", "whole", EmbeddedConfig.voices,
        "How many voices.",
        "More for voice cloning, 1 for the clearest single voice in a short run.",
        "embedded.voices",
        least=1,
    ),
    Flag(
        "embedded_languages", "list", list(EmbeddedConfig.languages),
        f"Languages, of {', '.join(LANGUAGES)}; they take turns.",
        "Name several for a voice that speaks several; each needs its share of the time.",
        "embedded.languages", "CODES",
    ),
)

TEXT = (
    Flag(
        "vocabulary", ("bpe", "characters"), None,
        "What texts are cut into.",
        "bpe makes texts shorter and needs more speech to learn from.",
        "text.vocabulary", "", "characters for tiny, else bpe",
    ),
    Flag(
        "vocabulary_size", "whole", None,
        "Tokens of the bpe vocabulary.",
        "Larger for many languages, smaller for a small corpus.",
        "text.vocabulary_size", "TOKENS", "2048",
    ),
    Flag(
        "phonemes", "switch", None,
        "Let espeak-ng write the texts as phonemes first.",
        "For languages whose spelling says little, such as Persian, or for little data.",
        "text.phonemes", "", "on for the embedded corpus, else off",
    ),
    Flag(
        "max_text_length", "whole", None,
        "Clips whose text has more tokens are left out.",
        "Lower it where memory is short.",
        "text.max_tokens", "TOKENS", "402",
    ),
    Flag(
        "max_mel_frames", "whole", None,
        "Clips with more mel frames are left out; 86 frames are a second.",
        "Lower it where memory is short.",
        "", "FRAMES", "no limit but --max_seconds",
        least=1,
    ),
)

BATCHES = (
    Flag(
        "batch_size", "whole", BatchConfig.batch_size,
        "Clips in a batch, in every stage that has no size of its own.",
        "Lower it, and raise --grad_accum, when the model device runs out of memory.",
        "batches.batch_size", "CLIPS",
    ),
    Flag(
        "buckets", "whole", BatchConfig.buckets,
        "How many lengths batches are padded to. Each is traced once, and compiled once on GPUs.",
        "16 where clip lengths vary widely and padding is above 10 %.",
        "batches.buckets",
    ),
    Flag(
        "static_shapes", "switch", BatchConfig.static_shapes,
        "Pad every batch to the longest clip: one shape, one trace.",
        "For memory that must not vary; costs the time of the padding.",
        "batches.static_shapes",
    ),
    Flag(
        "temperature", "number", BatchConfig.temperature,
        "Above 1, rare speakers and languages are taken more often; 1 takes clips as they are.",
        "2 to 5 where one language or speaker has most of the clips.",
        "batches.temperature", "T",
    ),
    Flag(
        "conditioning_seconds", "pair", BatchConfig.conditioning_seconds,
        "Length of the reference of another clip of the speaker, from LOW to HIGH seconds.",
        "Shorter where most clips are short.",
        "batches.conditioning_seconds", "LOW,HIGH",
    ),
    Flag(
        "num_workers", "whole", None,
        "Parallel reads of clips, and processes that prepare the corpus.",
        "Lower it where other programs need the cores.",
        "train.workers", "", "one per core",
    ),
    Flag(
        "host_prefetch", "whole", TrainConfig.host_prefetch,
        "Batches that wait ready in host memory.",
        "Higher where the disk is slow now and then; each costs a batch of host memory.",
        "train.host_prefetch", "BATCHES",
    ),
)

AUGMENTATION = (
    Flag(
        "noise_probability", "number", AugmentConfig.noise_probability,
        "Share of the references that get noise.",
        "0.3 where voices shall be cloned from poor recordings.",
        "augment.noise_probability", "SHARE",
    ),
    Flag(
        "noise_snr_db", "pair", AugmentConfig.noise_snr_db,
        "How far that noise lies below the voice, in dB.",
        "Lower numbers are more noise.",
        "augment.noise_snr_db", "LOW,HIGH",
    ),
    Flag(
        "gain_probability", "number", AugmentConfig.gain_probability,
        "Share of the clips that are made louder or softer, their references alike.",
        "0.3 where all clips have one level and references will not.",
        "augment.gain_probability", "SHARE",
    ),
    Flag(
        "gain_db", "pair", AugmentConfig.gain_db,
        "By how much, in dB.",
        "",
        "augment.gain_db", "LOW,HIGH",
    ),
    Flag(
        "mask_probability", "number", AugmentConfig.mask_probability,
        "Share of the references of which stretches and bands are silenced.",
        "0.3 for small corpora.",
        "augment.mask_probability", "SHARE",
    ),
)
