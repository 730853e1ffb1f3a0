"""The networks: audio tokenizer, conditioning, GPT, speaker encoder, vocoder."""
