"""The networks compute what the published code computes, with weights of the same names.

Expected outputs were recorded from that code; see make_reference.py. Every error is in units of
what is allowed.
"""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from myxtts import UserError
from myxtts.xtts_v2 import mels
from myxtts.xtts_v2.directory import PublishedDirectory
from myxtts.xtts_v2.networks import Published
from myxtts.xtts_v2.resampling import interpolated, resampled
from tests.myxtts.xtts_v2 import formula

# Tensors that neither the published code nor ours computes with.
UNUSED = ("num_batches_tracked", "discrete_loss")


def dvae_parts(networks, reference):
    mel = reference["mel/dvae"]
    vectors = networks.dvae.vectors_of(mel)
    rebuilt = networks.dvae.mel_of(reference["dvae/codes"])
    state = [variable.value for variable in networks.dvae.codebook.variables]
    state = [tf.identity(value) for value in state]
    outputs = networks.dvae(mel[:, : mel.shape[1] // 4 * 4], training=True)
    book = networks.dvae.codebook
    made = {
        "dvae/vectors": vectors,
        "dvae/mel": rebuilt,
        "dvae/losses": tf.stack(list(outputs["losses"].values())),
        "dvae/trained_vectors": tf.identity(book.vectors.value),
        "dvae/trained_sums": tf.identity(book.sums.value),
        "dvae/trained_counts": tf.identity(book.counts.value),
    }
    for variable, value in zip(book.variables, state, strict=True):
        variable.assign(value)
    return made


def conditioning_parts(networks, reference):
    mel = reference["mel/conditioning"]
    return {"conditioning/latents": networks.conditioning(np.concatenate([mel, mel[:, ::-1]]))}


def gpt_losses(networks, reference, left_out=None):
    text, text_lengths = formula.texts()
    _, samples = formula.clips()
    return networks.gpt(
        reference["conditioning/latents"],
        text,
        tf.constant(text_lengths, tf.int32),
        tf.constant(reference["dvae/codes"], tf.int32),
        tf.constant(-(-samples // 1024), tf.int32),
        left_out=left_out,
    )


def gpt_parts(networks, reference):
    outputs = gpt_losses(networks, reference)
    losses = tf.stack([outputs["text_loss"], outputs["audio_loss"]])
    return {"gpt/audio_logits": outputs["audio_logits"], "gpt/losses": losses}


def speaker_parts(networks, reference):
    mel = reference["speaker/mel"]
    features = networks.speaker.features_of(mel)
    return {
        "speaker/scores": networks.speaker.scores_of(features),
        "speaker/vector": networks.speaker.vectors_of(mel),
    }


def hifigan_parts(networks, reference):
    made = networks.hifigan(formula.latents(1), formula.speaker_vector())
    return {"hifigan/waveform_1": made}


def mel_parts(networks, reference):
    batch, _ = formula.clips()
    return {"mel/dvae": mels.log_mel(batch, networks.mel_stats, mels.DVAE_FFT)}


PARTS = {
    "gpt.conditioning": conditioning_parts,
    "gpt.": gpt_parts,
    "hifigan_decoder.speaker_encoder.": speaker_parts,
    "hifigan_decoder.waveform_decoder.": hifigan_parts,
}


def assert_equal(reference, made):
    errors = {name: reference.error(name, value) for name, value in made.items()}
    assert max(errors.values()) <= 1, errors


@pytest.mark.parametrize(
    "parts", [dvae_parts, conditioning_parts, gpt_parts, speaker_parts, hifigan_parts, mel_parts]
)
def test_each_network_computes_what_the_published_one_does(small, reference, parts):
    assert_equal(reference, parts(small, reference))


def test_mels_and_resampling_are_those_of_torchaudio(small, reference):
    waveform = formula.reference()[None]
    at_16k = resampled(waveform, 22050, 16000)
    made = {
        "mel/conditioning": mels.log_mel(waveform, small.mel_stats, mels.CONDITIONING_FFT),
        "resampled/16000": at_16k[:, -2000:],
        "resampled/24000": resampled(waveform, 22050, 24000)[:, -2000:],
        "resampled/22050": resampled(at_16k, 24000, 22050)[:, -2000:],
        "speaker/mel": mels.speaker_mel(at_16k),
        "speaker/unit_vector": small.speaker(at_16k),
    }
    assert_equal(reference, made)
    assert resampled(waveform, 22050, 22050) is waveform


def test_codes_are_those_of_the_published_dvae(small, reference):
    codes = small.dvae.codes_of(reference["mel/dvae"])
    assert reference.error("dvae/codes", codes) == 0


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_latents_of_any_number_become_the_published_waveform(small, reference, count):
    latents = tf.constant(formula.latents(count))
    made = {
        f"hifigan/hops_{count}": small.hifigan.hops_of(latents),
        f"hifigan/waveform_{count}": small.hifigan(latents, formula.speaker_vector()),
    }
    if count == 7:
        for speed in (0.8, 1.3):
            made[f"hifigan/speed_{speed}"] = interpolated(latents, 1 / speed)
    assert_equal(reference, made)


def test_targets_are_left_out_where_the_published_trainer_leaves_them_out(small, reference):
    outputs = gpt_losses(small, reference, left_out=tf.constant([[0, 0], [2, 5]]))
    losses = [outputs["text_loss"], outputs["audio_loss"]]
    assert_equal(reference, {"gpt/losses_left_out": np.array(losses)})


def test_gradients_have_the_published_sizes(small, reference):
    """Of every weight: GPT and conditioning by the GPT's loss, the DVAE by its own."""
    text, text_lengths = formula.texts()
    _, samples = formula.clips()
    mel = reference["mel/conditioning"]
    mel = np.concatenate([mel, mel[:, ::-1]])
    named = {n: v.value for n, v in small.names.variables.items() if n.startswith("gpt.")}
    with tf.GradientTape() as tape:
        loss = small.gpt(
            small.conditioning(mel),
            text,
            tf.constant(text_lengths, tf.int32),
            tf.constant(reference["dvae/codes"], tf.int32),
            tf.constant(-(-samples // 1024), tf.int32),
        )["loss"]
    made = {"gpt/gradient_norms": norms(tape, loss, named)}
    trained = {v.path for v in small.dvae.trainable_variables}
    named = {n: v.value for n, v in small.dvae_names.variables.items() if v.path in trained}
    mel = reference["mel/dvae"]
    with tf.GradientTape() as tape:
        loss = small.dvae(mel[:, : mel.shape[1] // 4 * 4])["loss"]
    made["dvae/gradient_norms"] = norms(tape, loss, named)
    assert_equal(reference, made)


def norms(tape, loss, named):
    order = sorted(named)
    gradients = tape.gradient(loss, [named[name] for name in order])
    return np.array([tf.norm(tf.convert_to_tensor(g)).numpy() for g in gradients])


def test_every_tensor_of_a_file_matters(small, small_source, reference):
    """Doubled, each of them makes some comparison fail, or the file is refused."""
    assert PARTS.keys().isdisjoint(UNUSED)
    missed = []
    for name, variable in [*small.names.variables.items(), *small.dvae_names.variables.items()]:
        fitting = [parts for prefix, parts in PARTS.items() if name.startswith(prefix)]
        parts = compiled(fitting[0] if fitting else dvae_parts, small, reference)
        before = tf.identity(variable.value)
        # The length of a weight-normed direction does not matter: a half of it is doubled.
        half = name.endswith("original1")
        change = tf.concat([before[:1], 2 * before[1:]], 0) if half else 2 * before
        variable.assign(change)
        made = parts()
        variable.assign(before)
        if max(reference.error(key, value) for key, value in made.items()) <= 1:
            missed.append(name)
    assert not missed
    known = {**small.names.variables, **small.dvae_names.variables}
    rest = [n for n in [*small_source.model, *small_source.dvae] if n not in known]
    for name in rest:
        if name == "mel_stats":
            doubled = mels.log_mel(formula.clips()[0], 2 * small.mel_stats, mels.DVAE_FFT)
            assert reference.error("mel/dvae", doubled) > 1
        elif not any(part in name for part in UNUSED):
            changed = {**small_source.model, name: 2 * small_source.model[name]}
            with pytest.raises(UserError, match=f"{name} in formula is not what it is in XTTS v2"):
                small.names.read(changed, "formula")


_compiled = {}


def compiled(parts, networks, reference):
    if parts not in _compiled:
        _compiled[parts] = tf.function(lambda: parts(networks, reference))
    return _compiled[parts]


def test_the_published_layout_goes_in_and_comes_out_equal(small, small_source, tmp_path):
    small.directory().write(tmp_path / "out")
    again = PublishedDirectory.open(tmp_path / "out")
    for mine, wanted in ((again.model, small_source.model), (again.dvae, small_source.dvae)):
        assert mine.keys() == wanted.keys()
        for name, value in wanted.items():
            assert (mine[name].dtype, mine[name].shape) == (value.dtype, value.shape), name
            np.testing.assert_array_equal(mine[name], value, err_msg=name)
    assert again.config == small_source.config
    assert again.licence == small_source.licence


def test_a_model_that_only_speaks_is_made_without_a_dvae(small_source):
    networks = Published(dataclasses.replace(small_source, dvae=None))
    assert networks.dvae is None and networks.directory().dvae is None
