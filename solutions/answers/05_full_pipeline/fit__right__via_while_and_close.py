"""Counts in a while loop, and closes the manager itself."""


def fit(config):
    mesh = make_mesh(config["num_devices"])
    check_config(config)
    (x, y), loss_fn, init = make_task(config)
    optimizer = make_optimizer(config)
    manager = open_manager(Path(config["directory"]) / "checkpoints", config["keep"])
    step, state, _ = restore_state(
        manager, first_state(init, optimizer, mesh), settings_of(config)
    )
    stream = batches(
        (x, y),
        config["batch_size"],
        NamedSharding(mesh, P("data")),
        config["seed"],
        step,
    )
    train_step = make_train_step(loss_fn, optimizer, mesh, config["num_microbatches"])
    write, flush = open_log(config, step)
    while step < config["num_steps"]:
        state, metrics = train_step(state, next(stream))
        step += 1
        write(step, metrics)
        if not step % config["save_every"]:
            flush()
            save_state(manager, step, state, settings_of(config))
    if step not in manager.all_steps():
        flush()
        save_state(manager, step, state, settings_of(config))
    manager.wait_until_finished()
    manager.close()
    return state["params"]
