"""Saves without a flush: killed right after it, the log lacks the step's line.

Told: none
Fails: trains to the last step; goes on; checkpoints; several processes
"""


def fit(config):
    mesh, optimizer = make_mesh(config["num_devices"]), make_optimizer(config)
    data, loss_fn, init = make_task(config)
    state, facts = first_state(init, optimizer, mesh), settings_of(config)
    train_step = make_train_step(loss_fn, optimizer, mesh, config["num_microbatches"])
    with open_manager(f"{config['directory']}/checkpoints", config["keep"]) as manager:
        start, state, _ = restore_state(manager, state, facts)
        write, _flush = open_log(config, start)
        by_rows = NamedSharding(mesh, P("data"))
        stream = batches(data, config["batch_size"], by_rows, config["seed"], start)
        for step in range(start + 1, config["num_steps"] + 1):
            state, metrics = train_step(state, next(stream))
            write(step, metrics)
            if step % config["save_every"] == 0 or step == config["num_steps"]:
                save_state(manager, step, state, facts)
    return state["params"]
