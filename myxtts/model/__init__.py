"""The networks of an XTTS, from a text and a recording to a waveform:

    latents = conditioning(reference, reference_lengths)      # conditioning: how the voice sounds
    vector = speaker_encoder(reference, reference_lengths)    # speaker: whose voice it is
    codes, lengths, hidden = generate(gpt, latents, text, text_lengths)    # gpt, sampling
    mel = tokenizer.decode(codes, lengths)                    # tokenizer: mels to codes and back
    waveform = vocoder(mel, vector)                           # vocoder, or griffin_lim

config            the sizes of all networks
layers, decoder   the parts that networks are built from
vocoder_losses, discriminators, mel_correction, vocoder_comparison   training the vocoder
whole_batch       sums and means over the rows of all replicas
"""
