"""Text: normalised for its language, then turned into token ids.

normalise        `normalise(text, language)`: one written form for everything spoken alike
languages/       one file for each language: alphabet, numbers, dates, abbreviations
written_forms    forms that all languages write alike
alphabets        finds texts in the script of another language
vocabulary       token ids, by BPE or characters
graph_tokens     the same as TensorFlow ops, for a SavedModel
sentences        cuts long texts into pieces
"""
