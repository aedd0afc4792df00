"""Lets an ExitStack close the manager, and counts with itertools."""

import contextlib


def fit(config):
    check_config(config)
    c = dict(config)
    mesh = make_mesh(c["num_devices"])
    data, loss_fn, init = make_task(c)
    optimizer = make_optimizer(c)
    with contextlib.ExitStack() as stack:
        manager = open_manager(c["directory"] + "/checkpoints", c["keep"])
        stack.callback(manager.close)
        stack.callback(manager.wait_until_finished)
        start, state, _ = restore_state(
            manager, first_state(init, optimizer, mesh), settings_of(c)
        )
        write, flush = open_log(c, start)
        sharding = NamedSharding(mesh, P("data"))
        stream = batches(data, c["batch_size"], sharding, c["seed"], start)
        step = make_train_step(loss_fn, optimizer, mesh, c["num_microbatches"])
        for number in itertools.takewhile(
            lambda number: number <= c["num_steps"], itertools.count(start + 1)
        ):
            state, metrics = step(state, next(stream))
            write(number, metrics)
            if number == c["num_steps"] or number % c["save_every"] == 0:
                flush()
                save_state(manager, number, state, settings_of(c))
        return state["params"]
