"""Trains from one checkpoint to the next in an inner loop."""


def fit(config):
    check_config(config)
    mesh, every = make_mesh(config["num_devices"]), config["save_every"]
    data, loss_fn, init = make_task(config)
    optimizer = make_optimizer(config)
    train_step = make_train_step(loss_fn, optimizer, mesh, config["num_microbatches"])
    state = first_state(init, optimizer, mesh)
    with open_manager(
        Path(config["directory"], "checkpoints"), config["keep"]
    ) as manager:
        done, state, _ = restore_state(manager, state, settings_of(config))
        write, flush = open_log(config, done)
        stream = batches(
            data,
            config["batch_size"],
            NamedSharding(mesh, P("data")),
            config["seed"],
            done,
        )
        while done < config["num_steps"]:
            until = min(done // every * every + every, config["num_steps"])
            for batch in itertools.islice(stream, until - done):
                state, metrics = train_step(state, batch)
                done += 1
                write(done, metrics)
            flush()
            save_state(manager, done, state, settings_of(config))
    return state["params"]
