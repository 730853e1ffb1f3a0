"""XTTS v2 as it was published: its files, read and written, and its networks.

    voice = PublishedVoice.load("XTTS-v2")                       # voice.py
    cloned = voice.clone(["a.wav"])
    waveform = voice.speak("Good morning.", "en", cloned)

    source = PublishedDirectory.open("XTTS-v2")                  # directory.py
    networks = Published.load(source)                            # networks.py
    networks.directory().write("copy")

| files | what they hold |
|---|---|
| pickled.py, pth.py, safetensors.py | tensors from files that others wrote, nothing executed |
| weights.py | one set of names for all the variants of a checkpoint that people have |
| config.py, directory.py | the sizes in config.json; the published layout, in and out |
| names.py, layers.py | how a network's variables are called in a published file |
| mels.py, resampling.py | three spectrograms; sample rates and grids, as torchaudio and torch do |
| dvae.py, conditioning.py, gpt.py, gpt_block.py, speaker.py, hifigan.py | the networks |
| bpe.py, text.py | a vocab.json's ids; the ids of a text of any length |
| cleaners/, normaliser.py | the written form of a text, and the record of what wrote it |
| new_language.py | one more language: tokens, and rows for them |
| sampling.py, voice.py | codes, one after the other; speech |
"""
