"""Opens the manager, which makes its folder, before it looks at the settings.

Told: none
Fails: refuses bad settings
"""


def fit(config):
    with open_manager(f"{config['directory']}/checkpoints", config["keep"]) as manager:
        data, loss_fn, init = make_task(config)
        mesh, optimizer = make_mesh(config["num_devices"]), make_optimizer(config)
        state, facts = first_state(init, optimizer, mesh), settings_of(config)
        pieces = config["num_microbatches"]
        train_step = make_train_step(loss_fn, optimizer, mesh, pieces)
        start, state, _ = restore_state(manager, state, facts)
        write, flush = open_log(config, start)
        by_rows = NamedSharding(mesh, P("data"))
        stream = batches(data, config["batch_size"], by_rows, config["seed"], start)
        for step in range(start + 1, config["num_steps"] + 1):
            state, metrics = train_step(state, next(stream))
            write(step, metrics)
            if step % config["save_every"] == 0 or step == config["num_steps"]:
                flush()
                save_state(manager, step, state, facts)
    return state["params"]
