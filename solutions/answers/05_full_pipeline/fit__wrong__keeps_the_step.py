"""Keeps train steps by task and sizes: a later fit trains with the first one's learning
rate.

Told: none
Fails: goes on
"""

steps = {}


def known_step(config, loss_fn, optimizer, mesh):
    key = config["task"], config["num_devices"], config["num_microbatches"]
    if key not in steps:
        steps[key] = make_train_step(loss_fn, optimizer, mesh, key[2])
    return steps[key]


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
        train_step = known_step(config, loss_fn, optimizer, mesh)
        by_rows = NamedSharding(mesh, P("data"))
        stream = batches(data, config["batch_size"], by_rows, config["seed"], step)
        write, flush = open_log(config, step)
        while step < config["num_steps"]:
            state, metrics = train_step(state, next(stream))
            step += 1
            is_last = step == config["num_steps"]
            write(step, metrics)
            if is_last or step % config["save_every"] == 0:
                flush()
                save_state(manager, step, state, settings)
    return state["params"]
