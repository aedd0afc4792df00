"""Saves the whole config as facts.

Told: none
Fails: checkpoints; several processes
"""


def fit(config):
    mesh = make_mesh(config["num_devices"])
    data, loss_fn, init = make_task(config)
    optimizer = make_optimizer(config)
    fresh = first_state(init, optimizer, mesh)
    train = make_train_step(loss_fn, optimizer, mesh, config["num_microbatches"])
    facts = settings_of(config)
    folder = Path(config["directory"], "checkpoints")
    with open_manager(folder, config["keep"]) as manager:
        done, state, _ = restore_state(manager, fresh, facts)
        stream = batches(
            data,
            config["batch_size"],
            NamedSharding(mesh, P("data")),
            config["seed"],
            done,
        )
        write, flush = open_log(config, done)
        for step in range(done + 1, config["num_steps"] + 1):
            state, metrics = train(state, next(stream))
            write(step, metrics)
            if step % config["save_every"] == 0 or step == config["num_steps"]:
                flush()
                save_state(manager, step, state, config)
    return state["params"]
