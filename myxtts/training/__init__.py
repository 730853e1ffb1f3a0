"""Training: from a corpus to a voice, one stage after the other, with exact continuation.

A stage's loop on one screen (`stage_run` and `loop` have it in full, `trainer` is around it):

    stage = make_stage(...)                                  # stages/: networks, features, losses
    loop = Loop(strategy, stage, config, precision)          # loop: variables on the model device
    progress, _ = checkpoints.restore_newest()               # stage_checkpoints
    position = progress.next_batch(batches_per_epoch)
    dataset = data.batches(stage, position=position)         # data: the batch plan from there on
    iterator = iter(strategy.experimental_distribute_dataset(dataset))
    while progress.step < budget.steps:                      # budget: epochs, steps or minutes
        loop.run(iterator, steps, phase)                     # one call of a tf.function:
            # for each step:
            #     batch = next(iterator)                     # features made on the data device
            #     losses = stage.losses(batch, seed, phase)
            #     learner.learn(gradients, ...)              # optimizer: AdamW, clipping, averages
            #     records[step] = losses, norms, position    # stays on the model device
        if due(records):    records.fetch()                  # step_records: log, TensorBoard, bar
        if due(evaluation): loop.evaluate(held_out)          # by averaged weights; keeps the best
        if due(samples):    stage.show(exhibits)             # exhibits: speech, mels, attention
        if due(checkpoint): checkpoints.save(progress)       # whole or not at all
        if interruption.signal: break                        # interruption: SIGINT and SIGTERM
    finish(stage_run)                                        # finishing: last figures and result

Also here: run_directory (what is where), identity (which job a directory belongs to), workers
(several machines), memory (estimates for the dry run), start (`--init_from`).
"""
