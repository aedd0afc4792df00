"""Saves a step before it writes its line: killed between the two, the log lacks it.

Told: none
Fails: checkpoints
"""


def fit(config):
    mesh = make_mesh(config["num_devices"])
    data, loss_fn, init = make_task(config)
    optimizer = make_optimizer(config)
    state = first_state(init, optimizer, mesh)
    settings = settings_of(config)
    with open_manager(
        Path(config["directory"], "checkpoints"), config["keep"]
    ) as manager:
        step, state, _ = restore_state(manager, state, settings)
        train_step = make_train_step(
            loss_fn, optimizer, mesh, config["num_microbatches"]
        )
        by_rows = NamedSharding(mesh, P("data"))
        stream = batches(data, config["batch_size"], by_rows, config["seed"], step)
        write, flush = open_log(config, step)
        while step < config["num_steps"]:
            state, metrics = train_step(state, next(stream))
            step += 1
            is_last = step == config["num_steps"]
            if is_last or step % config["save_every"] == 0:
                flush()
                save_state(manager, step, state, settings)
            write(step, metrics)
        flush()
    return state["params"]
