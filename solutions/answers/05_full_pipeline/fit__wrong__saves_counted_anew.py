"""Counts save_every from the step where the run went on.

Told: none
Fails: checkpoints
"""


def fit(config):
    mesh = make_mesh(config["num_devices"])
    data, loss_fn, init = make_task(config)
    optimizer = make_optimizer(config)
    fresh, settings = first_state(init, optimizer, mesh), settings_of(config)
    with open_manager(
        Path(config["directory"], "checkpoints"), config["keep"]
    ) as manager:
        begun, state, _ = restore_state(manager, fresh, settings)
        train = make_train_step(loss_fn, optimizer, mesh, config["num_microbatches"])
        rows = NamedSharding(mesh, P("data"))
        stream = batches(data, config["batch_size"], rows, config["seed"], begun)
        write, flush = open_log(config, begun)
        for done in range(1, config["num_steps"] - begun + 1):
            state, metrics = train(state, next(stream))
            write(begun + done, metrics)
            if done % config["save_every"] == 0 or begun + done == config["num_steps"]:
                flush()
                save_state(manager, begun + done, state, settings)
    return state["params"]
