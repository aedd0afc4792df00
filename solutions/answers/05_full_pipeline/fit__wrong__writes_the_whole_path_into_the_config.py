"""Writes the absolute path of its directory into the caller's config.

Told: none
Fails: arguments stay
"""


def fit(config):
    mesh = make_mesh(config["num_devices"])
    data, loss_fn, init = make_task(config)
    config["directory"] = os.path.abspath(config["directory"])  # Orbax wants it so
    optimizer, facts = make_optimizer(config), settings_of(config)
    fresh = first_state(init, optimizer, mesh)
    with open_manager(
        Path(config["directory"], "checkpoints"), config["keep"]
    ) as manager:
        start, state, _ = restore_state(manager, fresh, facts)
        train_step = make_train_step(
            loss_fn, optimizer, mesh, config["num_microbatches"]
        )
        by_rows = NamedSharding(mesh, P("data"))
        stream = batches(data, config["batch_size"], by_rows, config["seed"], start)
        write, flush = open_log(config, start)
        for step in range(start + 1, config["num_steps"] + 1):
            state, metrics = train_step(state, next(stream))
            write(step, metrics)
            if step % config["save_every"] == 0 or step == config["num_steps"]:
                flush()
                save_state(manager, step, state, facts)
    return state["params"]
