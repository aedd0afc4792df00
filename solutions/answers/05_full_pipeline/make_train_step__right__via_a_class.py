"""An object that is called like a function, and holds the jitted step."""


class TrainStep:
    def __init__(self, loss_fn, optimizer, mesh, count):
        self.loss_fn, self.optimizer, self.count = loss_fn, optimizer, count
        self.grads_of = jax.shard_map(
            self.local,
            mesh=mesh,
            in_specs=(P(), P("data")),
            out_specs=P(),
            check_vma=False,
        )
        self.jitted = jax.jit(self.step, donate_argnames=("state",))

    def local(self, params, batch):
        grad = jax.value_and_grad(lambda p, piece: self.loss_fn(p, *piece))
        first, *rest = (
            jax.tree.map(lambda a, k=k: a[k], self.cut(batch))
            for k in range(self.count)
        )
        total = grad(params, first)
        for piece in rest:
            total = jax.tree.map(lambda a, b: a + b, total, grad(params, piece))
        summed = jax.lax.psum(total, "data")
        pieces = self.count * jax.lax.axis_size("data")
        return jax.tree.map(lambda a: a / pieces, summed)

    def cut(self, batch):
        return [
            a.reshape(self.count, a.shape[0] // self.count, *a.shape[1:]) for a in batch
        ]

    def step(self, state, batch):
        loss, grads = self.grads_of(state["params"], batch)
        norm = optax.global_norm(grads)
        return updated(self.optimizer, state, grads), {"loss": loss, "grad_norm": norm}

    def __call__(self, state, batch):
        return self.jitted(state, batch)


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    return TrainStep(loss_fn, optimizer, mesh, num_microbatches)
