"""Flags of the corpus and of its batches."""

from myxtts.command.flags.table import Flag
from myxtts.config import AugmentConfig, BatchConfig, PrepareConfig
from myxtts.corpus.embedded import LANGUAGES, EmbeddedConfig
from myxtts.corpus.formats import FORMATS
from myxtts.training.config import TrainConfig

CORPUS = (
    Flag(
        "train_data", "text", None,
        "Directory of the corpus to train on.",
        when=f"Formats: {', '.join(FORMATS)}. Without it a corpus is made by espeak-ng.",
        sets="source.directory", unit="DIR", chosen="a corpus is made",
    ),
    Flag(
        "val_data", "text", None,
        "Directory of the corpus to measure on, in the same format.",
        when="Use it if the corpus comes with a validation part.",
        unit="DIR", chosen="a share of the training corpus, by --validation_share",
    ),
    Flag(
        "val_metadata", "text", None,
        "Metadata file inside --val_data.",
        when="Use it if one directory has training and validation clips in two lists.",
        unit="FILE", chosen="that of --metadata",
    ),
    Flag(
        "validation_share", "number", TrainConfig.validation_share,
        "Share of the clips kept out of training to measure on, if there is no --val_data.",
        when="Lower for a large corpus: a few hundred clips are enough.",
        sets="train.validation_share", unit="SHARE",
    ),
    Flag(
        "format", ("auto", *FORMATS), "auto",
        "Format of the corpus.",
        when="Name it if it is not recognised.",
        sets="source.format",
    ),
    Flag(
        "metadata", "text", None,
        "Metadata file inside the corpus.",
        when="Name it if there are several, or if it is not found.",
        sets="source.metadata", unit="FILE", chosen="found by its name",
    ),
    Flag(
        "audio_dir", "text", None,
        "Folder of the audio files inside the corpus.",
        when="Name it if clips are reported missing.",
        sets="source.audio_dir", unit="DIR", chosen="found by its name",
    ),
    Flag(
        "language", "text", "en",
        "Language of the clips whose metadata names none, as a code such as en or fa.",
        when="Set it for a corpus in another language.",
        sets="source.language", unit="CODE",
    ),
    Flag(
        "speaker", "text", None,
        "Speaker of the clips whose metadata names none.",
        when="Set it if several corpora of one speaker are to count as one voice.",
        sets="source.speaker", unit="NAME", chosen="the corpus directory's name",
    ),
    Flag(
        "prepared_dir", "text", None,
        "Where the manifest and the copies at 22,050 Hz go.",
        when="Set it if the corpus is read-only or its disk is slow.",
        unit="DIR", chosen="prepared/ inside the corpus",
    ),
    Flag(
        "min_seconds", "number", PrepareConfig.min_seconds,
        "Shorter clips are left out.",
        when="Raise it if very short clips are mostly noise.",
        sets="prepare.min_seconds", unit="SECONDS",
    ),
    Flag(
        "max_seconds", "number", PrepareConfig.max_seconds,
        "Longer clips are left out.",
        when="Lower it if memory is short: the longest clips decide the largest batch.",
        sets="prepare.max_seconds", unit="SECONDS",
    ),
    Flag(
        "max_rejected", "number", 0.2,
        "The largest share of bad clips to accept.",
        when="Raise it once you have seen in rejected.tsv why clips are left out.",
        unit="SHARE",
        least=0,
    ),
    Flag(
        "trim_silence", "number", None,
        "Trim silence, which is this many dB below the peak, from both ends of each clip.",
        when="30 to 40 for recordings with long pauses at their ends.",
        sets="prepare.trim_silence_db", unit="DB", chosen="no trimming",
    ),
    Flag(
        "loudness", "number", None,
        "Bring every clip to this loudness, in dBFS (RMS).",
        when="-23 for corpora whose speakers differ in loudness.",
        sets="prepare.loudness_dbfs", unit="DBFS", chosen="as recorded",
    ),
)

EMBEDDED = (
    Flag(
        "embedded_dir", "text", "runs/embedded_corpus",
        "Where to make the corpus when there is no --train_data.",
        unit="DIR",
    ),
    Flag(
        "embedded_minutes", "number", None,
        "How much speech to make; a minute takes 0.2 s to make and 2.6 MB of disk.",
        when="Less if the disk is small.",
        sets="embedded.minutes", unit="MINUTES",
        chosen="48 for each of --max_minutes, from 180 to 1440",
        least=0.1,
    ),
    Flag(
        "embedded_voices", "whole", EmbeddedConfig.voices,
        "How many voices.",
        when="More for voice cloning, 1 for the clearest single voice in a short run.",
        sets="embedded.voices",
        least=1,
    ),
    Flag(
        "embedded_languages", "list", list(EmbeddedConfig.languages),
        f"Languages, of {', '.join(LANGUAGES)}; they take turns.",
        when="Name several for one voice that speaks them all; each needs its share of the time.",
        sets="embedded.languages", unit="CODES",
    ),
)

TEXT = (
    Flag(
        "vocabulary", ("bpe", "characters"), None,
        "What texts are split into.",
        when="bpe gives shorter texts and needs more speech to learn from.",
        sets="text.vocabulary", chosen="characters for tiny, else bpe",
    ),
    Flag(
        "vocabulary_size", "whole", None,
        "Tokens of the bpe vocabulary.",
        when="Larger for many languages, smaller for a small corpus.",
        sets="text.vocabulary_size", unit="TOKENS", chosen="2048",
    ),
    Flag(
        "phonemes", "switch", None,
        "Have espeak-ng write the texts as phonemes first.",
        when="For languages whose spelling says little about their sound, or for little data; not "
        "for Persian, where espeak-ng leaves out the ezafe.",
        sets="text.phonemes", chosen="on for the embedded corpus, else off",
    ),
    Flag(
        "max_text_length", "whole", None,
        "Clips whose text has more tokens are left out.",
        when="Lower it where memory is short.",
        sets="text.max_tokens", unit="TOKENS", chosen="402",
    ),
    Flag(
        "max_mel_frames", "whole", None,
        "Clips with more mel frames are left out; 86 frames are a second.",
        when="Lower it where memory is short.",
        unit="FRAMES", chosen="no limit but --max_seconds",
        least=1,
    ),
)

BATCHES = (
    Flag(
        "batch_size", "whole", BatchConfig.batch_size,
        "Clips in a batch, in every stage without a size of its own.",
        when="Lower it, and raise --grad_accum, when the model device runs out of memory.",
        sets="batches.batch_size", unit="CLIPS",
    ),
    Flag(
        "buckets", "whole", BatchConfig.buckets,
        "Number of lengths to pad batches to. Each is traced once, and compiled once on GPUs.",
        when="16 if clip lengths vary widely and padding is above 10 %.",
        sets="batches.buckets",
    ),
    Flag(
        "static_shapes", "switch", BatchConfig.static_shapes,
        "Pad every batch to the longest clip, for one shape and one trace.",
        when="For memory that must not vary; costs the time of the padding.",
        sets="batches.static_shapes",
    ),
    Flag(
        "temperature", "number", BatchConfig.temperature,
        "Above 1, rare speakers and languages come more often; 1 takes clips as they are.",
        when="2 to 5 if one language or speaker has most of the clips.",
        sets="batches.temperature", unit="T",
    ),
    Flag(
        "conditioning_seconds", "pair", BatchConfig.conditioning_seconds,
        "Length of the references, cut from other clips of the speaker: LOW to HIGH seconds.",
        when="Shorter if most clips are short.",
        sets="batches.conditioning_seconds", unit="LOW,HIGH",
    ),
    Flag(
        "num_workers", "whole", None,
        "The number of parallel reads of clips, and of processes that prepare the corpus.",
        when="Lower it if other programs need the cores.",
        sets="train.workers", chosen="one per core",
    ),
    Flag(
        "host_prefetch", "whole", TrainConfig.host_prefetch,
        "The number of batches kept ready in host memory.",
        when="Higher if the disk is slow now and then; each costs a batch of host memory.",
        sets="train.host_prefetch", unit="BATCHES",
    ),
)

AUGMENTATION = (
    Flag(
        "noise_probability", "number", AugmentConfig.noise_probability,
        "Share of the references that get noise.",
        when="0.3 if voices are to be cloned from poor recordings.",
        sets="augment.noise_probability", unit="SHARE",
    ),
    Flag(
        "noise_snr_db", "pair", AugmentConfig.noise_snr_db,
        "Level of that noise below the voice, in dB.",
        when="Lower numbers are more noise.",
        sets="augment.noise_snr_db", unit="LOW,HIGH",
    ),
    Flag(
        "gain_probability", "number", AugmentConfig.gain_probability,
        "Share of the clips that are made louder or softer, with their references.",
        when="0.3 if all clips are equally loud and references will not be.",
        sets="augment.gain_probability", unit="SHARE",
    ),
    Flag(
        "gain_db", "pair", AugmentConfig.gain_db,
        "Range of those changes of level, in dB.",
        sets="augment.gain_db", unit="LOW,HIGH",
    ),
    Flag(
        "mask_probability", "number", AugmentConfig.mask_probability,
        "Share of the references in which stretches and bands are silenced.",
        when="0.3 for small corpora.",
        sets="augment.mask_probability", unit="SHARE",
    ),
)
