"""Counts the caller's num_steps down.

Told: none
Fails: arguments stay
"""


def fit(config):
    mesh = make_mesh(config["num_devices"])
    data, loss_fn, init = make_task(config)
    optimizer = make_optimizer(config)
    fresh = first_state(init, optimizer, mesh)
    train = make_train_step(loss_fn, optimizer, mesh, config["num_microbatches"])
    settings, last = settings_of(config), config["num_steps"]
    with open_manager(
        Path(config["directory"]) / "checkpoints", config["keep"]
    ) as manager:
        done, state, _ = restore_state(manager, fresh, settings)
        config["num_steps"] -= done
        rows = NamedSharding(mesh, P("data"))
        stream = batches(data, config["batch_size"], rows, config["seed"], done)
        write, flush = open_log(config, done)
        for step in range(done + 1, done + config["num_steps"] + 1):
            state, metrics = train(state, next(stream))
            write(step, metrics)
            if step % config["save_every"] == 0 or step == last:
                flush()
                save_state(manager, step, state, settings)
    return state["params"]
