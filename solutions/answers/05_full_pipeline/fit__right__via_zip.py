"""Zips steps and batches."""


def fit(config):
    check_config(config)
    mesh, settings = make_mesh(config["num_devices"]), settings_of(config)
    data, loss_fn, init = make_task(config)
    optimizer = make_optimizer(config)
    step_fn = make_train_step(loss_fn, optimizer, mesh, config["num_microbatches"])

    def is_due(done):
        return done % config["save_every"] == 0 or done == config["num_steps"]

    with open_manager(
        Path(config["directory"], "checkpoints"), config["keep"]
    ) as manager:
        fresh = first_state(init, optimizer, mesh)
        start, state, _ = restore_state(manager, fresh, settings)
        write, flush = open_log(config, start)
        layout = NamedSharding(mesh, P("data"))
        stream = batches(data, config["batch_size"], layout, config["seed"], start)
        steps = range(start + 1, config["num_steps"] + 1)
        for done, batch in zip(steps, stream, strict=False):
            state, metrics = step_fn(state, batch)
            write(done, metrics)
            if is_due(done):
                flush()
                save_state(manager, done, state, settings)
    return state["params"]
