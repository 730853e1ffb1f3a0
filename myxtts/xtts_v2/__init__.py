"""The published XTTS v2: its files, networks, texts and fine-tuning.

    voice = PublishedVoice.load("XTTS-v2")                       # voice.py
    cloned = voice.clone(["a.wav"])
    waveform = voice.speak("Good morning.", "en", cloned)

    source = PublishedDirectory.open("XTTS-v2")                  # directory.py
    networks = Published.load(source)                            # networks.py
    networks.directory().write("copy")

| files | what they hold |
|---|---|
| pickled.py, pth.py, safetensors.py | tensors from foreign files; nothing in them is executed |
| weights.py | one set of names for all variants of a checkpoint |
| config.py, directory.py | the sizes in config.json; reads and writes the published layout |
| names.py, layers.py | the published names of a network's variables |
| mels.py, resampling.py | three spectrograms; resampling and interpolation, as in torchaudio and
torch |
| dvae.py, conditioning.py, gpt.py, gpt_block.py, speaker.py, hifigan.py | the networks |
| bpe.py, text.py | the BPE of a vocab.json; the ids of a text of any length |
| cleaners/, normaliser.py | the written form of a text, and the record of how it was made |
| new_language.py | adding a language: its tokens, and rows for them |
| sampling.py, voice.py | drawing codes one after the other; speech |
"""
