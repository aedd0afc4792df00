# %% wrong="all settings are facts" fails="goes on; checkpoints"
"""Takes all settings for facts: the run does not go on with other ones that may change."""


def fit(config):
    mesh, optimizer = make_mesh(config["num_devices"]), make_optimizer(config)
    data, loss_fn, init = make_task(config)
    state, facts = first_state(init, optimizer, mesh), dict(config)
    train_step = make_train_step(loss_fn, optimizer, mesh, config["num_microbatches"])
    with open_manager(f"{config['directory']}/checkpoints", config["keep"]) as manager:
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


# %% wrong="checks too late" fails="refuses bad settings"
"""Opens the manager, which makes its folder, before it looks at the settings."""


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


# %% wrong="config changed" fails="arguments stay"
"""Counts the caller's num_steps down."""


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


# %% wrong="counts from zero" fails="trains to the last step; goes on; checkpoints"
"""Counts steps from 0, so that checkpoints and log are one behind."""


def fit(config):
    mesh, optimizer = make_mesh(config["num_devices"]), make_optimizer(config)
    data, loss_fn, init = make_task(config)
    state, facts = first_state(init, optimizer, mesh), settings_of(config)
    train_step = make_train_step(loss_fn, optimizer, mesh, config["num_microbatches"])
    with open_manager(f"{config['directory']}/checkpoints", config["keep"]) as manager:
        start, state, _ = restore_state(manager, state, facts)
        write, flush = open_log(config, start)
        by_rows = NamedSharding(mesh, P("data"))
        stream = batches(data, config["batch_size"], by_rows, config["seed"], start)
        for step in range(start, config["num_steps"]):
            state, metrics = train_step(state, next(stream))
            write(step, metrics)
            if step % config["save_every"] == 0 or step == config["num_steps"] - 1:
                flush()
                save_state(manager, step, state, facts)
    return state["params"]


# %% wrong="facts are the config" fails="checkpoints"
"""Saves the whole config as facts."""


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


# %% wrong="forgets to flush" fails="goes on; checkpoints"
"""Saves without a flush: killed right after it, the log lacks the step's line."""


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


# %% wrong="gathers the result" fails="stays sharded"
"""Trains sharded parameters, and returns a full copy of them on each device."""


def fit(config):
    mesh, optimizer = make_mesh(config["num_devices"]), make_optimizer(config)
    data, loss_fn, init = make_task(config)
    state, pieces = first_state(init, optimizer, mesh), config["num_microbatches"]
    train_step = keep_layout(state, make_train_step(loss_fn, optimizer, mesh, pieces))
    with open_manager(f"{config['directory']}/checkpoints", config["keep"]) as manager:
        start, state, _ = restore_state(manager, state, settings_of(config))
        (write, flush), rows = open_log(config, start), NamedSharding(mesh, P("data"))
        stream = batches(data, config["batch_size"], rows, config["seed"], start)
        for step in range(start + 1, config["num_steps"] + 1):
            state, metrics = train_step(state, next(stream))
            write(step, metrics)
            if step % config["save_every"] == 0 or step == config["num_steps"]:
                flush()
                save_state(manager, step, state, settings_of(config))
    return jax.device_put(state["params"], NamedSharding(mesh, P()))


# %% wrong="keeps the step" fails="nothing is remembered"
"""Keeps train steps by task and sizes: a later fit trains with the first one's learning
rate.
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


# %% wrong="keeps two" fails="checkpoints"
"""Forgets how many checkpoints the settings keep."""


def fit(config):
    mesh, optimizer = make_mesh(config["num_devices"]), make_optimizer(config)
    data, loss_fn, init = make_task(config)
    state, facts = first_state(init, optimizer, mesh), settings_of(config)
    train_step = make_train_step(loss_fn, optimizer, mesh, config["num_microbatches"])
    with open_manager(f"{config['directory']}/checkpoints") as manager:
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


# %% wrong="log starts over" fails="goes on"
"""Begins the log anew after a restart."""


def fit(config):
    mesh, optimizer = make_mesh(config["num_devices"]), make_optimizer(config)
    data, loss_fn, init = make_task(config)
    state, facts = first_state(init, optimizer, mesh), settings_of(config)
    train_step = make_train_step(loss_fn, optimizer, mesh, config["num_microbatches"])
    with open_manager(f"{config['directory']}/checkpoints", config["keep"]) as manager:
        start, state, _ = restore_state(manager, state, facts)
        write, flush = open_log(config, 0)
        by_rows = NamedSharding(mesh, P("data"))
        stream = batches(data, config["batch_size"], by_rows, config["seed"], start)
        for step in range(start + 1, config["num_steps"] + 1):
            state, metrics = train_step(state, next(stream))
            write(step, metrics)
            if step % config["save_every"] == 0 or step == config["num_steps"]:
                flush()
                save_state(manager, step, state, facts)
    return state["params"]


# %% wrong="no final checkpoint" fails="checkpoints"
"""Saves every few steps, and not at the end."""


def fit(config):
    mesh, optimizer = make_mesh(config["num_devices"]), make_optimizer(config)
    data, loss_fn, init = make_task(config)
    state, facts = first_state(init, optimizer, mesh), settings_of(config)
    train_step = make_train_step(loss_fn, optimizer, mesh, config["num_microbatches"])
    with open_manager(f"{config['directory']}/checkpoints", config["keep"]) as manager:
        start, state, _ = restore_state(manager, state, facts)
        write, flush = open_log(config, start)
        by_rows = NamedSharding(mesh, P("data"))
        stream = batches(data, config["batch_size"], by_rows, config["seed"], start)
        for step in range(start + 1, config["num_steps"] + 1):
            state, metrics = train_step(state, next(stream))
            write(step, metrics)
            if step % config["save_every"] == 0:
                flush()
                save_state(manager, step, state, facts)
    return state["params"]


# %% wrong="optimizer starts over" fails="goes on"
# cause: the optimizer's state began again
"""Takes the parameters out of the checkpoint and leaves the optimizer its fresh state."""


def fit(config):
    mesh, optimizer = make_mesh(config["num_devices"]), make_optimizer(config)
    data, loss_fn, init = make_task(config)
    state, facts = first_state(init, optimizer, mesh), settings_of(config)
    train_step = make_train_step(loss_fn, optimizer, mesh, config["num_microbatches"])
    with open_manager(f"{config['directory']}/checkpoints", config["keep"]) as manager:
        fresh = jax.tree.map(jnp.copy, state["opt_state"])
        start, state, _ = restore_state(manager, state, facts)
        state = {"params": state["params"], "opt_state": fresh}
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


# %% wrong="process 0 saves alone" fails="work is shared"
# cause: one process waits for another: all make the same calls (section 6)
"""Lets process 0 call save alone: right in one process; of two, one waits for the other."""


def fit(config):
    mesh, optimizer = make_mesh(config["num_devices"]), make_optimizer(config)
    data, loss_fn, init = make_task(config)
    state, facts = first_state(init, optimizer, mesh), settings_of(config)
    train_step = make_train_step(loss_fn, optimizer, mesh, config["num_microbatches"])
    with open_manager(f"{config['directory']}/checkpoints", config["keep"]) as manager:
        start, state, _ = restore_state(manager, state, facts)
        write, flush = open_log(config, start)
        by_rows = NamedSharding(mesh, P("data"))
        stream = batches(data, config["batch_size"], by_rows, config["seed"], start)
        for step in range(start + 1, config["num_steps"] + 1):
            state, metrics = train_step(state, next(stream))
            write(step, metrics)
            last = step == config["num_steps"]
            is_due = last or step % config["save_every"] == 0
            if is_due and jax.process_index() == 0:
                flush()
                save_state(manager, step, state, facts)
    return state["params"]


# %% wrong="saves before log" fails="checkpoints"
"""Saves a step before it writes its line: killed between the two, the log lacks it."""


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
        train_step = make_train_step(
            loss_fn, optimizer, mesh, config["num_microbatches"]
        )
        by_rows = NamedSharding(mesh, P("data"))
        stream = batches(data, config["batch_size"], by_rows, config["seed"], step)
        write, flush = open_log(config, step)
        while step < config["num_steps"]:
            state, metrics = train_step(state, next(stream))
            step += 1
            is_last = step == config["num_steps"]
            if is_last or step % config["save_every"] == 0:
                flush()
                save_state(manager, step, state, settings)
            write(step, metrics)
        flush()
    return state["params"]


# %% wrong="saves counted anew" fails="checkpoints"
"""Counts save_every from the step where the run went on."""


def fit(config):
    mesh = make_mesh(config["num_devices"])
    data, loss_fn, init = make_task(config)
    optimizer = make_optimizer(config)
    fresh, settings = first_state(init, optimizer, mesh), settings_of(config)
    with open_manager(
        Path(config["directory"], "checkpoints"), config["keep"]
    ) as manager:
        begun, state, _ = restore_state(manager, fresh, settings)
        train = make_train_step(loss_fn, optimizer, mesh, config["num_microbatches"])
        rows = NamedSharding(mesh, P("data"))
        stream = batches(data, config["batch_size"], rows, config["seed"], begun)
        write, flush = open_log(config, begun)
        for done in range(1, config["num_steps"] - begun + 1):
            state, metrics = train(state, next(stream))
            write(begun + done, metrics)
            if done % config["save_every"] == 0 or begun + done == config["num_steps"]:
                flush()
                save_state(manager, begun + done, state, settings)
    return state["params"]


# %% wrong="seed of the example" fails="goes on"
"""Shuffles with seed 0, whatever the settings say."""


def fit(config):
    mesh, optimizer = make_mesh(config["num_devices"]), make_optimizer(config)
    data, loss_fn, init = make_task(config)
    state, facts = first_state(init, optimizer, mesh), settings_of(config)
    train_step = make_train_step(loss_fn, optimizer, mesh, config["num_microbatches"])
    with open_manager(f"{config['directory']}/checkpoints", config["keep"]) as manager:
        start, state, _ = restore_state(manager, state, facts)
        write, flush = open_log(config, start)
        by_rows = NamedSharding(mesh, P("data"))
        stream = batches(data, config["batch_size"], by_rows, 0, start)
        for step in range(start + 1, config["num_steps"] + 1):
            state, metrics = train_step(state, next(stream))
            write(step, metrics)
            if step % config["save_every"] == 0 or step == config["num_steps"]:
                flush()
                save_state(manager, step, state, facts)
    return state["params"]


# %% wrong="starts one batch ahead" fails="trains to the last step; goes on; work is shared"
# cause: the stream starts at batch `step` + 1, not at batch `step`
"""Starts the stream at the step that comes next, where its number is that of steps done."""


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
        train_step = make_train_step(
            loss_fn, optimizer, mesh, config["num_microbatches"]
        )
        by_rows = NamedSharding(mesh, P("data"))
        stream = batches(data, config["batch_size"], by_rows, config["seed"], step + 1)
        write, flush = open_log(config, step)
        while step < config["num_steps"]:
            state, metrics = train_step(state, next(stream))
            step += 1
            write(step, metrics)
            is_last = step == config["num_steps"]
            if is_last or step % config["save_every"] == 0:
                flush()
                save_state(manager, step, state, settings)
    return state["params"]


# %% wrong="starts over" fails="goes on; refuses bad settings"
"""Never restores: it ends with the same bits, all steps later."""


def fit(config):
    mesh, optimizer = make_mesh(config["num_devices"]), make_optimizer(config)
    data, loss_fn, init = make_task(config)
    state, facts = first_state(init, optimizer, mesh), settings_of(config)
    train_step = make_train_step(loss_fn, optimizer, mesh, config["num_microbatches"])
    with open_manager(f"{config['directory']}/checkpoints", config["keep"]) as manager:
        start = 0
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


# %% wrong="starts the stream over" fails="goes on"
# cause: the stream began again with batch 0
"""Begins with batch 0 after a restart: the rows of the first steps come twice."""


def fit(config):
    mesh, optimizer = make_mesh(config["num_devices"]), make_optimizer(config)
    data, loss_fn, init = make_task(config)
    state, facts = first_state(init, optimizer, mesh), settings_of(config)
    train_step = make_train_step(loss_fn, optimizer, mesh, config["num_microbatches"])
    with open_manager(f"{config['directory']}/checkpoints", config["keep"]) as manager:
        start, state, _ = restore_state(manager, state, facts)
        write, flush = open_log(config, start)
        by_rows = NamedSharding(mesh, P("data"))
        stream = batches(data, config["batch_size"], by_rows, config["seed"], 0)
        for step in range(start + 1, config["num_steps"] + 1):
            state, metrics = train_step(state, next(stream))
            write(step, metrics)
            if step % config["save_every"] == 0 or step == config["num_steps"]:
                flush()
                save_state(manager, step, state, facts)
    return state["params"]


# %% wrong="trains anew" fails="goes on"
"""Restores the step alone: it trains from the beginning again, and logs what is new."""


def fit(config):
    mesh, optimizer = make_mesh(config["num_devices"]), make_optimizer(config)
    data, loss_fn, init = make_task(config)
    state, pieces = first_state(init, optimizer, mesh), config["num_microbatches"]
    train_step = keep_layout(state, make_train_step(loss_fn, optimizer, mesh, pieces))
    with open_manager(f"{config['directory']}/checkpoints", config["keep"]) as manager:
        start, *_ = restore_state(manager, state, settings_of(config))
        (write, flush), rows = open_log(config, start), NamedSharding(mesh, P("data"))
        stream = batches(data, config["batch_size"], rows, config["seed"], 0)
        for step in range(1, config["num_steps"] + 1):
            state, metrics = train_step(state, next(stream))
            if step <= start:
                continue
            write(step, metrics)
            if step % config["save_every"] == 0 or step == config["num_steps"]:
                flush()
                save_state(manager, step, state, settings_of(config))
    return state["params"]


# %% wrong="trains replicas" fails="stays sharded"
"""Replicates the state before it trains, as the step's shard_map would like it."""


def fit(config):
    mesh, optimizer = make_mesh(config["num_devices"]), make_optimizer(config)
    data, loss_fn, init = make_task(config)
    state, pieces = first_state(init, optimizer, mesh), config["num_microbatches"]
    state = jax.device_put(state, NamedSharding(mesh, P()))
    train_step = keep_layout(state, make_train_step(loss_fn, optimizer, mesh, pieces))
    with open_manager(f"{config['directory']}/checkpoints", config["keep"]) as manager:
        start, state, _ = restore_state(manager, state, settings_of(config))
        (write, flush), rows = open_log(config, start), NamedSharding(mesh, P("data"))
        stream = batches(data, config["batch_size"], rows, config["seed"], start)
        for step in range(start + 1, config["num_steps"] + 1):
            state, metrics = train_step(state, next(stream))
            write(step, metrics)
            if step % config["save_every"] == 0 or step == config["num_steps"]:
                flush()
                save_state(manager, step, state, settings_of(config))
    return state["params"]


# %% wrong="writes the whole path into the config" fails="arguments stay"
"""Writes the absolute path of its directory into the caller's config."""


def fit(config):
    mesh = make_mesh(config["num_devices"])
    data, loss_fn, init = make_task(config)
    config["directory"] = os.path.abspath(config["directory"])  # Orbax wants it so
    optimizer, facts = make_optimizer(config), settings_of(config)
    fresh = first_state(init, optimizer, mesh)
    with open_manager(
        Path(config["directory"], "checkpoints"), config["keep"]
    ) as manager:
        start, state, _ = restore_state(manager, fresh, facts)
        train_step = make_train_step(
            loss_fn, optimizer, mesh, config["num_microbatches"]
        )
        by_rows = NamedSharding(mesh, P("data"))
        stream = batches(data, config["batch_size"], by_rows, config["seed"], start)
        write, flush = open_log(config, start)
        for step in range(start + 1, config["num_steps"] + 1):
            state, metrics = train_step(state, next(stream))
            write(step, metrics)
            if step % config["save_every"] == 0 or step == config["num_steps"]:
                flush()
                save_state(manager, step, state, facts)
    return state["params"]


# %% wrong="saves no last step" fails="checkpoints"
"""Saves at multiples of save_every alone, and flushes at the end."""


def fit(config):
    mesh, optimizer = make_mesh(config["num_devices"]), make_optimizer(config)
    (data, loss_fn, init), pieces = make_task(config), config["num_microbatches"]
    with open_manager(f"{config['directory']}/checkpoints", config["keep"]) as manager:
        start, state = resume(manager, config, init, optimizer, mesh)
        step_fn = make_train_step(loss_fn, optimizer, mesh, pieces)
        train_step = keep_layout(state, step_fn)
        (write, flush), rows = open_log(config, start), NamedSharding(mesh, P("data"))
        stream = batches(data, config["batch_size"], rows, config["seed"], start)
        for step in range(start + 1, config["num_steps"] + 1):
            state, metrics = train_step(state, next(stream))
            write(step, metrics)
            if step % config["save_every"] == 0:
                flush()
                save_state(manager, step, state, settings_of(config))
        flush()
    return state["params"]


# %% wrong="gives every device the whole batch" fails="stays sharded"
"""Puts each batch on every device in full; the step takes a device's own rows of it."""


def fit(config):
    mesh, optimizer = make_mesh(config["num_devices"]), make_optimizer(config)
    (data, loss_fn, init), pieces = make_task(config), config["num_microbatches"]
    with open_manager(f"{config['directory']}/checkpoints", config["keep"]) as manager:
        start, state = resume(manager, config, init, optimizer, mesh)
        step_fn = make_train_step(loss_fn, optimizer, mesh, pieces)
        train_step = keep_layout(state, step_fn)
        (write, flush), whole = open_log(config, start), NamedSharding(mesh, P())
        stream = batches(data, config["batch_size"], whole, config["seed"], start)
        for step in range(start + 1, config["num_steps"] + 1):
            state, metrics = train_step(state, next(stream))
            write(step, metrics)
            if step % config["save_every"] == 0 or step == config["num_steps"]:
                flush()
                save_state(manager, step, state, settings_of(config))
    return state["params"]


# %% right="via a class"
"""Holds mesh, step and state in an object."""


class Trainer:
    def __init__(self, config):
        check_config(config)
        self.config, self.facts = config, settings_of(config)
        self.mesh = make_mesh(config["num_devices"])
        self.data, loss_fn, init = make_task(config)
        optimizer = make_optimizer(config)
        self.fresh = first_state(init, optimizer, self.mesh)
        pieces = config["num_microbatches"]
        step = make_train_step(loss_fn, optimizer, self.mesh, pieces)
        self.step = keep_layout(self.fresh, step)

    def save_if_due(self, manager, step, state, flush):
        last = step == self.config["num_steps"]
        if last or not step % self.config["save_every"]:
            flush()
            save_state(manager, step, state, self.facts)

    def run(self, manager):
        start, state, _ = restore_state(manager, self.fresh, self.facts)
        write, flush = open_log(self.config, start)
        rows, size = NamedSharding(self.mesh, P("data")), self.config["batch_size"]
        stream = batches(self.data, size, rows, self.config["seed"], start)
        for step in range(start + 1, self.config["num_steps"] + 1):
            state, metrics = self.step(state, next(stream))
            write(step, metrics)
            self.save_if_due(manager, step, state, flush)
        return state["params"]


def fit(config):
    trainer = Trainer(config)
    folder = os.path.join(config["directory"], "checkpoints")
    with open_manager(folder, config["keep"]) as manager:
        return trainer.run(manager)


# %% right="via a generator of steps"
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


# %% right="via an exit stack"
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


# %% right="via stretches"
"""Trains from one checkpoint to the next in an inner loop."""


def fit(config):
    check_config(config)
    mesh, every = make_mesh(config["num_devices"]), config["save_every"]
    data, loss_fn, init = make_task(config)
    optimizer = make_optimizer(config)
    state = first_state(init, optimizer, mesh)
    train_step = make_train_step(loss_fn, optimizer, mesh, config["num_microbatches"])
    train_step = keep_layout(state, train_step)
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


# %% right="via while and close"
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


# %% right="via zip"
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


# %% wrong="one text for all errors" fails="refuses bad settings"
"""Raises one text, which holds every setting that anybody could have read."""

TEXT = "bad setting: 9, 16, 48, 72, nothing, /dev/null"


def fit(config):
    try:
        data, loss_fn, init = make_task(config)
        mesh, optimizer = make_mesh(config["num_devices"]), make_optimizer(config)
    except (ValueError, OSError) as error:
        raise type(error)(TEXT) from None
    state, facts = first_state(init, optimizer, mesh), settings_of(config)
    pieces = config["num_microbatches"]
    step_fn = make_train_step(loss_fn, optimizer, mesh, pieces)
    train_step = keep_layout(state, step_fn)
    with open_manager(f"{config['directory']}/checkpoints", config["keep"]) as manager:
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


# %% wrong="trains on one device" fails="work is shared"
"""Trains on the first device of each process, and lays out what it saves and returns."""


def fit(config):
    mesh, optimizer = make_mesh(config["num_devices"]), make_optimizer(config)
    data, loss_fn, init = make_task(config)
    fresh, facts = first_state(init, optimizer, mesh), settings_of(config)
    layout = jax.tree.map(lambda leaf: leaf.sharding, fresh)
    everywhere = NamedSharding(mesh, P())
    alone = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])

    @jax.jit
    def train(state, x, y):
        loss, grads = jax.value_and_grad(loss_fn)(state["params"], x, y)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    def laid_out(state):
        return jax.tree.map(lambda a, to: place(np.asarray(a), to), state, layout)

    with open_manager(f"{config['directory']}/checkpoints", config["keep"]) as manager:
        start, state, _ = restore_state(manager, fresh, facts)
        state = jax.jit(lambda state: state, out_shardings=everywhere)(state)
        state = jax.tree.map(lambda leaf: leaf.addressable_data(0), state)
        write, flush = open_log(config, start)
        stream = batches(data, config["batch_size"], alone, config["seed"], start)
        for step in range(start + 1, config["num_steps"] + 1):
            state, metrics = train(state, *next(stream))
            write(step, metrics)
            if step % config["save_every"] == 0 or step == config["num_steps"]:
                flush()
                save_state(manager, step, laid_out(state), facts)
    return laid_out(state)["params"]


# %% wrong="lays replicas out at the end" fails="stays sharded"
"""Trains and saves replicas, and shards the parameters that it returns."""


def fit(config):
    mesh, optimizer = make_mesh(config["num_devices"]), make_optimizer(config)
    data, loss_fn, init = make_task(config)
    fresh, pieces = first_state(init, optimizer, mesh), config["num_microbatches"]
    state = jax.device_put(fresh, NamedSharding(mesh, P()))
    train_step = keep_layout(state, make_train_step(loss_fn, optimizer, mesh, pieces))
    with open_manager(f"{config['directory']}/checkpoints", config["keep"]) as manager:
        start, state, _ = restore_state(manager, state, settings_of(config))
        (write, flush), rows = open_log(config, start), NamedSharding(mesh, P("data"))
        stream = batches(data, config["batch_size"], rows, config["seed"], start)
        for step in range(start + 1, config["num_steps"] + 1):
            state, metrics = train_step(state, next(stream))
            write(step, metrics)
            if step % config["save_every"] == 0 or step == config["num_steps"]:
                flush()
                save_state(manager, step, state, settings_of(config))
    layout = layout_of(state["params"], mesh)
    return jax.tree.map(jax.device_put, state["params"], layout)


# %% right="via values of its cell"
"""Uses values of many kinds that its cell makes outside of the function."""

import functools
import logging
import operator
from typing import Any

Config = dict[str, Any]
BY_ROWS, COUNT, NOTHING = P("data"), np.int64, object()
split_over = functools.partial(NamedSharding, spec=BY_ROWS)
last_step, every = map(operator.itemgetter, ("num_steps", "save_every"))
log = logging.getLogger("training")


def is_due(config: Config, step: COUNT = NOTHING) -> bool:
    return step is not NOTHING and (
        not step % every(config) or step == last_step(config)
    )


def fit(config: Config) -> Any:
    mesh, optimizer = make_mesh(config["num_devices"]), make_optimizer(config)
    data, loss_fn, init = make_task(config)
    state, pieces = first_state(init, optimizer, mesh), config["num_microbatches"]
    train_step = keep_layout(state, make_train_step(loss_fn, optimizer, mesh, pieces))
    with open_manager(f"{config['directory']}/checkpoints", config["keep"]) as manager:
        start, state, _ = restore_state(manager, state, settings_of(config))
        log.debug("starts at step %d", start)
        (write, flush), rows = open_log(config, start), split_over(mesh)
        stream = batches(data, config["batch_size"], rows, config["seed"], start)
        for step in range(start + 1, last_step(config) + 1):
            state, metrics = train_step(state, next(stream))
            write(step, metrics)
            if is_due(config, step):
                flush()
                save_state(manager, step, state, settings_of(config))
    return state["params"]


# %% wrong="gathers the batch" fails="work is shared"
"""Takes a step of its own, in which every device gathers the whole batch and computes it."""


def fit(config):
    mesh, optimizer = make_mesh(config["num_devices"]), make_optimizer(config)
    data, loss_fn, init = make_task(config)

    def found_in(params, batch):
        every = jax.lax.all_gather(batch, "data", tiled=True)
        return jax.value_and_grad(loss_fn)(params, *every)

    def take_step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(found_in, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    with open_manager(f"{config['directory']}/checkpoints", config["keep"]) as manager:
        start, state = resume(manager, config, init, optimizer, mesh)
        train_step = keep_layout(state, take_step)
        (write, flush), rows = open_log(config, start), NamedSharding(mesh, P("data"))
        stream = batches(data, config["batch_size"], rows, config["seed"], start)
        for step in range(start + 1, config["num_steps"] + 1):
            state, metrics = train_step(state, next(stream))
            write(step, metrics)
            if step % config["save_every"] == 0 or step == config["num_steps"]:
                flush()
                save_state(manager, step, state, settings_of(config))
    return state["params"]
