"""Yields states step by step from a function of its own, and saves outside of it."""


def steps_of(config, step_fn, state, stream, start):
    for number in range(start, config["num_steps"]):
        state, metrics = step_fn(state, next(stream))
        yield number + 1, state, metrics


def fit(config):
    check_config(config)
    mesh = make_mesh(config["num_devices"])
    data, loss_fn, init = make_task(config)
    optimizer, facts = make_optimizer(config), settings_of(config)
    folder = Path(config["directory"]).joinpath("checkpoints")
    with open_manager(folder, keep=config["keep"]) as manager:
        start, state, _ = restore_state(
            manager, first_state(init, optimizer, mesh), facts
        )
        write, flush = open_log(config, start)
        rows = NamedSharding(mesh, P("data"))
        stream = batches(data, config["batch_size"], rows, config["seed"], start)
        step_fn = make_train_step(loss_fn, optimizer, mesh, config["num_microbatches"])
        for step, newer, metrics in steps_of(config, step_fn, state, stream, start):
            state = newer
            write(step, metrics)
            if step in (
                config["num_steps"],
                step // config["save_every"] * config["save_every"],
            ):
                flush()
                save_state(manager, step, state, facts)
    return state["params"]
