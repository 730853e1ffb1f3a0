"""XTTS v2 as it was published: its files, read and written, and its networks.

    directory = PublishedDirectory.open("XTTS-v2")       # directory.py
    networks = Published.load(directory)                 # networks.py

| files | what they hold |
|---|---|
| pickled.py, pth.py, safetensors.py | tensors from files that others wrote, nothing executed |
| weights.py | one set of names for all the variants of a checkpoint that people have |
| config.py, directory.py | the sizes in config.json; the published layout, in and out |
| names.py | how a network's variables are called in a published file |
"""
