"""Text: normalised per language, then token ids."""
