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
        self.step = make_train_step(loss_fn, optimizer, self.mesh, pieces)

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
