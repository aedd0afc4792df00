# %% wrong="adds the leaves norms up" fails="metrics"
"""Adds up the norms of the leaves: that is no norm of one vector."""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        def add(total, piece):
            found = jax.value_and_grad(loss_fn)(params, *piece)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        total, _ = jax.lax.scan(add, zeros, microbatches_of(batch, num_microbatches))
        mean = jax.tree.map(lambda leaf: leaf / num_microbatches, total)
        return jax.lax.pmean(mean, "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {
            "loss": loss,
            "grad_norm": sum(map(jnp.linalg.norm, jax.tree.leaves(grads))),
        }
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)


# %% wrong="averages the parameters too" fails="one sync"
"""Averages the new parameters over the devices as well, which are the same already."""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        def add(total, piece):
            found = jax.value_and_grad(loss_fn)(params, *piece)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        total, _ = jax.lax.scan(add, zeros, microbatches_of(batch, num_microbatches))
        mean = jax.tree.map(lambda leaf: leaf / num_microbatches, total)
        return jax.lax.pmean(mean, "data")

    def step(state, batch):
        state, metrics = one_step(state, batch)
        specs = {"in_specs": P(), "out_specs": P(), "check_vma": False}
        mean = jax.shard_map(lambda p: jax.lax.pmean(p, "data"), mesh=mesh, **specs)
        return state | {"params": mean(state["params"])}, metrics

    def one_step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)


# %% wrong="compiles in each call" fails="no recompilation"
"""Calls jit inside the step, on a new function each time."""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        def add(total, piece):
            found = jax.value_and_grad(loss_fn)(params, *piece)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        total, _ = jax.lax.scan(add, zeros, microbatches_of(batch, num_microbatches))
        mean = jax.tree.map(lambda leaf: leaf / num_microbatches, total)
        return jax.lax.pmean(mean, "data")

    def train_step(state, batch):
        def step(state, batch):
            specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
            spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
            loss, grads = spread(state["params"], batch)
            metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
            return updated(optimizer, state, grads), metrics

        return jax.jit(step, donate_argnums=0)(state, batch)

    return train_step


# %% wrong="deletes by hand" fails="donated"
"""Deletes the old arrays after the step, and donates none: the new ones take other
memory.
"""

from jax import lax


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def on_device(state, batch):
        params = state["params"]

        def add(total, piece):
            found = jax.value_and_grad(loss_fn)(params, *piece)
            return jax.tree.map(jnp.add, total, found), None

        zeros = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
        total, _ = lax.scan(add, zeros, microbatches_of(batch, num_microbatches))
        total = jax.tree.map(lambda a: a / num_microbatches, total)
        loss, grads = lax.pmean(total, "data")
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    compiled = jax.jit(
        jax.shard_map(
            on_device,
            mesh=mesh,
            in_specs=(P(), P("data")),
            out_specs=P(),
            check_vma=False,
        )
    )

    def step(state, batch):
        new, metrics = compiled(state, batch)
        for leaf in jax.tree.leaves(state):  # the old arrays are gone
            if not isinstance(leaf, jax.core.Tracer):
                leaf.delete()
        return new, metrics

    return step


# %% wrong="every device takes all rows" fails="one sync"
# cause: each device takes its own rows: in_specs=(P(), P("data"))
"""Leaves the batch whole on each device: right numbers, eight times the work."""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        def add(total, piece):
            found = jax.value_and_grad(loss_fn)(params, *piece)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        total, _ = jax.lax.scan(add, zeros, microbatches_of(batch, num_microbatches))
        mean = jax.tree.map(lambda leaf: leaf / num_microbatches, total)
        return jax.lax.pmean(mean, "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P()), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)


# %% wrong="forgets to divide" fails="same numbers; metrics"
# cause: the microbatches' gradients are added up, not averaged
"""Adds the microbatches' gradients up and leaves it at that."""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        def add(total, piece):
            loss, grads = jax.value_and_grad(loss_fn)(params, *piece)
            return jax.tree.map(jnp.add, total, grads), loss

        zeros, pieces = jax.tree.map(jnp.zeros_like, params), num_microbatches
        total, losses = jax.lax.scan(add, zeros, microbatches_of(batch, pieces))
        return jax.lax.pmean((losses.mean(), total), "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)


# %% wrong="four microbatches" fails="same numbers"
"""Cuts into as many pieces as the example has."""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    num_microbatches = 4

    def mean_grads(params, batch):
        def add(total, piece):
            found = jax.value_and_grad(loss_fn)(params, *piece)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        total, _ = jax.lax.scan(add, zeros, microbatches_of(batch, num_microbatches))
        mean = jax.tree.map(lambda leaf: leaf / num_microbatches, total)
        return jax.lax.pmean(mean, "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)


# %% wrong="ignores the loss fn" fails="same numbers"
"""Trains the lesson's classifier, whatever loss was given."""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        def add(total, piece):
            found = jax.value_and_grad(digits_loss)(params, *piece)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        total, _ = jax.lax.scan(add, zeros, microbatches_of(batch, num_microbatches))
        mean = jax.tree.map(lambda leaf: leaf / num_microbatches, total)
        return jax.lax.pmean(mean, "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)


# %% wrong="ignores the optimizer" fails="same numbers"
"""Steps with the example's optimizer, whatever was given."""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        def add(total, piece):
            found = jax.value_and_grad(loss_fn)(params, *piece)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        total, _ = jax.lax.scan(add, zeros, microbatches_of(batch, num_microbatches))
        mean = jax.tree.map(lambda leaf: leaf / num_microbatches, total)
        return jax.lax.pmean(mean, "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(make_sgd(), state, grads), metrics

    return jax.jit(step, donate_argnums=0)


# %% wrong="jit and scan" fails="one sync"
# cause: under plain jit the compiler splits the loop and places the sync: shard_map leaves both to you
"""Leaves the sync to jit: right numbers, and one all-reduce per microbatch."""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def step(state, batch):
        def add(total, piece):
            found = jax.value_and_grad(loss_fn)(state["params"], *piece)
            return jax.tree.map(jnp.add, total, found), None

        split = NamedSharding(mesh, P(None, "data"))
        pieces = microbatches_of(batch, num_microbatches)
        pieces = jax.lax.with_sharding_constraint(pieces, split)
        zeros = 0.0, jax.tree.map(jnp.zeros_like, state["params"])
        total, _ = jax.lax.scan(add, zeros, pieces)
        loss, grads = jax.tree.map(lambda leaf: leaf / num_microbatches, total)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)


# %% wrong="keeps the old state" fails="donated"
"""Does not donate: two states in memory at the end of a step."""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        def add(total, piece):
            found = jax.value_and_grad(loss_fn)(params, *piece)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        total, _ = jax.lax.scan(add, zeros, microbatches_of(batch, num_microbatches))
        mean = jax.tree.map(lambda leaf: leaf / num_microbatches, total)
        return jax.lax.pmean(mean, "data")

    @jax.jit
    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return step


# %% wrong="keeps what each microbatch computed" fails="microbatches"
"""Differentiates the loop over microbatches, which keeps all that its rounds computed."""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        def whole_loss(params):
            pieces = microbatches_of(batch, num_microbatches)
            return jax.lax.map(lambda piece: loss_fn(params, *piece), pieces).mean()

        mean = jax.value_and_grad(whole_loss)(params)
        return jax.lax.pmean(mean, "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)


# %% wrong="loss of one device" fails="metrics"
# cause: the loss is one device's: pmean is missing
"""Averages the gradients over the devices, and forgets the loss."""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        def add(total, piece):
            loss, grads = jax.value_and_grad(loss_fn)(params, *piece)
            return jax.tree.map(jnp.add, total, grads), loss

        zeros, pieces = jax.tree.map(jnp.zeros_like, params), num_microbatches
        total, losses = jax.lax.scan(add, zeros, microbatches_of(batch, pieces))
        mean = jax.tree.map(lambda leaf: leaf / num_microbatches, total)
        return losses.mean(), jax.lax.pmean(mean, "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)


# %% wrong="loss of the last microbatch" fails="metrics"
# cause: the loss is that of the last microbatch
"""Reports the loss of the last microbatch for that of the batch."""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        def add(total, piece):
            loss, grads = jax.value_and_grad(loss_fn)(params, *piece)
            return jax.tree.map(jnp.add, total, grads), loss

        zeros, pieces = jax.tree.map(jnp.zeros_like, params), num_microbatches
        total, losses = jax.lax.scan(add, zeros, microbatches_of(batch, pieces))
        mean = jax.tree.map(lambda leaf: leaf / num_microbatches, total)
        return jax.lax.pmean((losses[-1], mean), "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)


# %% wrong="makes a mesh of its own" fails="same numbers"
# cause: the arrays of one program are on different sets of devices
"""Takes the first devices, however the mesh has them."""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    mesh = make_mesh(mesh.size)

    def mean_grads(params, batch):
        def add(total, piece):
            found = jax.value_and_grad(loss_fn)(params, *piece)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        total, _ = jax.lax.scan(add, zeros, microbatches_of(batch, num_microbatches))
        mean = jax.tree.map(lambda leaf: leaf / num_microbatches, total)
        return jax.lax.pmean(mean, "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)


# %% wrong="mean of the devices norms" fails="one sync; metrics"
"""Averages the norms of the devices' own gradients: too large, but on one device."""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        def add(total, piece):
            found = jax.value_and_grad(loss_fn)(params, *piece)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        total, _ = jax.lax.scan(add, zeros, microbatches_of(batch, num_microbatches))
        loss, grads = jax.tree.map(lambda leaf: leaf / num_microbatches, total)
        return jax.lax.pmean((loss, grads, optax.tree.norm(grads)), "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads, norm = spread(state["params"], batch)
        return updated(optimizer, state, grads), {"loss": loss, "grad_norm": norm}

    return jax.jit(step, donate_argnums=0)


# %% wrong="never syncs" fails="same numbers; metrics"
# cause: a device steps on its own rows: pmean is missing
"""Forgets the sync: right on one device; on eight the step follows one device's rows."""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        def add(total, piece):
            found = jax.value_and_grad(loss_fn)(params, *piece)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        total, _ = jax.lax.scan(add, zeros, microbatches_of(batch, num_microbatches))
        return jax.tree.map(lambda leaf: leaf / num_microbatches, total)

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)


# %% wrong="norm averaged too" fails="one sync"
"""Averages the norm of the averaged gradient, too: one number more is sent."""

from jax import lax


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def on_device(state, batch):
        def add(total, piece):
            new = jax.value_and_grad(loss_fn)(state["params"], *piece)
            return jax.tree.map(jnp.add, total, new), None

        zero = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, state["params"]))
        total, _ = lax.scan(add, zero, microbatches_of(batch, num_microbatches))
        total = jax.tree.map(lambda a: a / num_microbatches, total)
        loss, grads = lax.pmean(total, "data")
        norm = lax.pmean(optax.tree.norm(grads), "data")
        return updated(optimizer, state, grads), {"loss": loss, "grad_norm": norm}

    step = jax.shard_map(
        on_device, mesh=mesh, in_specs=(P(), P("data")), out_specs=P(), check_vma=False
    )
    return jax.jit(step, donate_argnums=0)


# %% wrong="norm of the clipped gradient" fails="metrics"
# cause: grad_norm is that of the clipped gradient
"""Measures the norm of what the optimizer makes of the gradient, behind the clipping."""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        def add(total, piece):
            found = jax.value_and_grad(loss_fn)(params, *piece)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        total, _ = jax.lax.scan(add, zeros, microbatches_of(batch, num_microbatches))
        mean = jax.tree.map(lambda leaf: leaf / num_microbatches, total)
        return jax.lax.pmean(mean, "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        norm = jnp.minimum(1.0, optax.tree.norm(grads))
        return updated(optimizer, state, grads), {"loss": loss, "grad_norm": norm}

    return jax.jit(step, donate_argnums=0)


# %% wrong="pmap step word for word" fails="same numbers; one sync; metrics"
# cause: shard_map tracks what differs, and has summed the gradients in the loop already: check_vma=False, or jax.lax.pcast before you differentiate
"""Leaves check_vma on and averages gradients that shard_map has summed already: eight
times too large on eight devices, right on one.
"""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        def add(total, piece):
            loss, grads = jax.value_and_grad(loss_fn)(params, *piece)
            return jax.tree.map(jnp.add, total, grads), loss

        zeros, pieces = jax.tree.map(jnp.zeros_like, params), num_microbatches
        total, losses = jax.lax.scan(add, zeros, microbatches_of(batch, pieces))
        mean = jax.tree.map(lambda leaf: leaf / num_microbatches, total)
        return jax.lax.pmean((losses.mean(), mean), "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P()}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)


# %% wrong="remembers the first step" fails="nothing is remembered"
"""Makes a step once for each mesh, and hands it out again for another loss."""

made_steps = {}


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    if (mesh, num_microbatches) in made_steps:
        return made_steps[mesh, num_microbatches]

    def mean_grads(params, batch):
        def add(total, piece):
            found = jax.value_and_grad(loss_fn)(params, *piece)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        total, _ = jax.lax.scan(add, zeros, microbatches_of(batch, num_microbatches))
        mean = jax.tree.map(lambda leaf: leaf / num_microbatches, total)
        return jax.lax.pmean(mean, "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    made_steps[mesh, num_microbatches] = jax.jit(step, donate_argnums=0)
    return made_steps[mesh, num_microbatches]


# %% wrong="steps kept" fails="nothing is remembered"
"""Remembers steps by loss and mesh: another optimizer gets the first one's step."""

known_steps = {}


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    key = loss_fn, mesh, num_microbatches
    if key in known_steps:
        return known_steps[key]

    def step(state, batch):
        def add(total, piece):
            found = jax.value_and_grad(loss_fn)(state["params"], *piece)
            return jax.tree.map(jnp.add, total, found), None

        zero = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, state["params"]))
        total, _ = jax.lax.scan(add, zero, microbatches_of(batch, num_microbatches))
        total = jax.tree.map(lambda a: a / num_microbatches, total)
        loss, grads = jax.lax.pmean(total, "data")
        return updated(optimizer, state, grads), {
            "loss": loss,
            "grad_norm": optax.tree.norm(grads),
        }

    step = jax.shard_map(
        step, mesh=mesh, in_specs=(P(), P("data")), out_specs=P(), check_vma=False
    )
    known_steps[key] = jax.jit(step, donate_argnums=0)
    return known_steps[key]


# %% wrong="sums over devices" fails="same numbers; metrics"
# cause: gradient and loss are 8 times too large: pmean averages
"""Adds the devices' means up: right on one device, eight times too large on eight."""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        def add(total, piece):
            found = jax.value_and_grad(loss_fn)(params, *piece)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        total, _ = jax.lax.scan(add, zeros, microbatches_of(batch, num_microbatches))
        mean = jax.tree.map(lambda leaf: leaf / num_microbatches, total)
        return jax.lax.psum(mean, "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)


# %% wrong="syncs in an unrolled loop" fails="one sync"
"""Averages every microbatch's gradient, in a Python loop: no loop in the program, and
still four times the bytes.
"""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        x, y = microbatches_of(batch, num_microbatches)
        total = None
        for piece in range(num_microbatches):
            found = jax.value_and_grad(loss_fn)(params, x[piece], y[piece])
            found = jax.lax.pmean(found, "data")
            total = found if total is None else jax.tree.map(jnp.add, total, found)
        return jax.tree.map(lambda leaf: leaf / num_microbatches, total)

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)


# %% wrong="syncs in the loop" fails="one sync"
"""Averages every microbatch's gradient over the devices: right numbers, and as many
exchanges as microbatches.
"""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        def add(total, piece):
            found = jax.value_and_grad(loss_fn)(params, *piece)
            found = jax.lax.pmean(found, "data")
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        total, _ = jax.lax.scan(add, zeros, microbatches_of(batch, num_microbatches))
        return jax.tree.map(lambda leaf: leaf / num_microbatches, total)

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)


# %% wrong="takes its microbatches side by side" fails="microbatches"
# cause: a device takes all its 12 rows at once
"""Maps over the microbatches, which computes them all at once."""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        pieces = microbatches_of(batch, num_microbatches)
        found = jax.vmap(lambda piece: jax.value_and_grad(loss_fn)(params, *piece))(
            pieces
        )
        mean = jax.tree.map(lambda leaf: leaf.mean(0), found)
        return jax.lax.pmean(mean, "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)


# %% wrong="takes its rows at once" fails="microbatches"
# cause: a device takes all its 12 rows at once
"""Ignores the microbatches: right numbers, all of a device's rows in memory at once."""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        return jax.lax.pmean(jax.value_and_grad(loss_fn)(params, *batch), "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)


# %% wrong="takes two arrays" fails="same numbers"
"""Takes it that a batch is a pair."""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        def add(total, piece):
            x, y = piece
            found = jax.value_and_grad(loss_fn)(params, x, y)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        total, _ = jax.lax.scan(add, zeros, microbatches_of(batch, num_microbatches))
        mean = jax.tree.map(lambda leaf: leaf / num_microbatches, total)
        return jax.lax.pmean(mean, "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)


# %% wrong="plain jit" fails="microbatches; one sync"
# cause: under plain jit the compiler splits the loop and places the sync: shard_map leaves both to you
"""Jits a loop over microbatches: the compiler splits their rows as it likes."""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def step(state, batch):
        def add(total, piece):
            found = jax.value_and_grad(loss_fn)(state["params"], *piece)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, state["params"])
        pieces = microbatches_of(batch, num_microbatches)
        total, _ = jax.lax.scan(add, zeros, pieces)
        loss, grads = jax.tree.map(lambda leaf: leaf / num_microbatches, total)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)


# %% wrong="leaves the tracking on" fails="same numbers; one sync; metrics"
# cause: shard_map tracks what differs, and has summed the gradients in the loop already: check_vma=False, or jax.lax.pcast before you differentiate
"""Differentiates tracked parameters: their gradients are summed in each round."""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        losses, total = [], jax.tree.map(jnp.zeros_like, params)
        for piece in zip(*microbatches_of(batch, num_microbatches), strict=True):
            loss, grads = jax.value_and_grad(loss_fn)(params, *piece)
            losses.append(loss)
            total = jax.tree.map(jnp.add, total, grads)
        mean = jax.tree.map(lambda leaf: leaf / num_microbatches, total)
        return jax.lax.pmean((sum(losses) / num_microbatches, mean), "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P()}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)


# %% right="sync inside update outside"
"""Gradients in a shard_map, the update outside of it."""

from jax import lax
import functools


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    @functools.partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(P(), P("data")),
        out_specs=P(),
        check_vma=False,
    )
    def start(params, batch):
        scaled = jax.value_and_grad(lambda p, *b: loss_fn(p, *b) / num_microbatches)

        def add(total, piece):
            return jax.tree.map(jnp.add, total, scaled(params, *piece)), ()

        like = jax.eval_shape(lambda p: (jnp.zeros(()), p), params)
        zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), like)
        total, () = lax.scan(add, zeros, microbatches_of(batch, num_microbatches))
        return jax.tree.map(lambda a: lax.pmean(a, "data"), total)

    @functools.partial(
        jax.jit,
        donate_argnames=("state",),
        out_shardings=NamedSharding(mesh, P()),
    )
    def step(state, batch):
        loss, grads = start(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.global_norm(grads)}
        return updated(optimizer, state, grads), metrics

    return step


# %% right="via a class"
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


# %% right="via a mesh in context"
"""Takes the mesh for shard_map out of the context."""

import functools


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    @functools.partial(jax.jit, donate_argnums=0)
    def step(state, batch):
        @functools.partial(
            jax.shard_map, in_specs=(P(), P("data")), out_specs=P(), check_vma=False
        )
        def grads_of(params, batch):
            def add(total, piece):
                found = jax.value_and_grad(loss_fn)(params, *piece)
                return jax.tree.map(jnp.add, total, found), None

            zeros = jnp.zeros(()), jax.tree.map(jnp.zeros_like, params)
            pieces = microbatches_of(batch, num_microbatches)
            total = jax.lax.scan(add, zeros, pieces)[0]
            mean = jax.tree.map(lambda a: a / num_microbatches, total)
            return jax.lax.pmean(mean, "data")

        loss, grads = grads_of(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    def train_step(state, batch):
        with jax.set_mesh(mesh):
            return step(state, batch)

    return train_step


# %% right="via fori loop"
"""Slices the microbatches out in a fori_loop; psum, divided by all pieces at the end."""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def summed(params, batch):
        size = len(batch[0]) // num_microbatches

        def add(k, total):
            piece = [
                jax.lax.dynamic_slice_in_dim(array, k * size, size) for array in batch
            ]
            found = jax.value_and_grad(loss_fn)(params, *piece)
            return jax.tree.map(jnp.add, total, found)

        zeros = jnp.float32(0), jax.tree.map(jnp.zeros_like, params)
        return jax.lax.psum(jax.lax.fori_loop(0, num_microbatches, add, zeros), "data")

    spread = jax.shard_map(
        summed, mesh=mesh, in_specs=(P(), P("data")), out_specs=P(), check_vma=False
    )

    def step(state, batch):
        total = spread(state["params"], batch)
        pieces = num_microbatches * mesh.shape["data"]
        loss, grads = jax.tree.map(lambda leaf: leaf / pieces, total)
        norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(grads)))
        return updated(optimizer, state, grads), {"loss": loss, "grad_norm": norm}

    return jax.jit(step, donate_argnums=(0,))


# %% right="via grad of a scan"
"""Differentiates a scan over microbatches that keeps nothing but its inputs, with
respect to varying parameters."""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        pieces = microbatches_of(batch, num_microbatches)

        def loss_of(params):
            part = jax.checkpoint(lambda piece: loss_fn(params, *piece))
            return jax.lax.map(part, pieces).mean()

        return jax.lax.pmean(jax.value_and_grad(loss_of)(params), "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)


# %% right="via one flat vector"
"""Joins all gradients and the loss into one vector, and averages that."""

from jax.flatten_util import ravel_pytree


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def one_device(state, batch):
        def add(k, total):
            size = batch[0].shape[0] // num_microbatches
            piece = [a[size * k : size * (k + 1)] for a in batch]
            loss, grads = jax.value_and_grad(loss_fn)(state["params"], *piece)
            return total + jnp.append(ravel_pytree(grads)[0], loss)

        flat, unravel = ravel_pytree(state["params"])
        total = jnp.zeros(flat.size + 1)
        for k in range(num_microbatches):
            total = add(k, total)
        mean = jax.lax.pmean(total / num_microbatches, "data")
        metrics = {"loss": mean[-1], "grad_norm": jnp.linalg.norm(mean[:-1])}
        return updated(optimizer, state, unravel(mean[:-1])), metrics

    step = jax.shard_map(
        one_device,
        mesh=mesh,
        in_specs=(P(), P("data")),
        out_specs=(P(), P()),
        check_vma=False,
    )
    return jax.jit(step, donate_argnums=[0])


# %% right="via python loop"
"""Unrolls the loop over microbatches, and takes the whole step inside shard_map."""

import functools


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    @functools.partial(jax.jit, donate_argnames="state")
    @functools.partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(P(), P("data")),
        out_specs=P(),
        check_vma=False,
    )
    def step(state, batch):
        found = []
        for k in range(num_microbatches):
            size = len(batch[0]) // num_microbatches
            piece = [array[k * size : (k + 1) * size] for array in batch]
            found.append(jax.value_and_grad(loss_fn)(state["params"], *piece))
        mean = jax.tree.map(lambda *leaves: sum(leaves) / len(leaves), *found)
        loss, grads = jax.lax.pmean(mean, "data")
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return step


# %% right="via varying params"
"""Leaves check_vma on and casts the parameters to varying: their gradient is local, and
pmean averages it."""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def vary(leaf):
        if hasattr(jax.lax, "pcast"):
            return jax.lax.pcast(leaf, "data", to="varying")
        return jax.lax.pvary(leaf, "data")  # JAX 0.7

    def mean_grads(params, batch):
        local = jax.tree.map(vary, params)

        def add(total, piece):
            found = jax.value_and_grad(loss_fn)(local, *piece)
            return jax.tree.map(jnp.add, total, found), None

        zeros = vary(jnp.float32(0)), jax.tree.map(jnp.zeros_like, local)
        total, _ = jax.lax.scan(add, zeros, microbatches_of(batch, num_microbatches))
        mean = jax.tree.map(lambda leaf: leaf / num_microbatches, total)
        return jax.lax.pmean(mean, "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P()}
        loss, grads = jax.shard_map(mean_grads, mesh=mesh, **specs)(
            state["params"], batch
        )
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)


# %% right="via lax.map and one mean"
"""Maps over microbatches in order, then averages what each gave."""


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        def grads_of(piece):
            return jax.value_and_grad(loss_fn)(params, *piece)

        each = jax.lax.map(grads_of, microbatches_of(batch, num_microbatches))
        mean = jax.tree.map(lambda leaf: leaf.mean(0), each)
        return jax.lax.pmean(mean, "data")

    def step(state, batch):
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        spread = jax.shard_map(mean_grads, mesh=mesh, **specs)
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return updated(optimizer, state, grads), metrics

    return jax.jit(step, donate_argnums=0)


# %% wrong="parts jitted alone" fails="no recompilation"
"""Compiles gradients and update, and computes the norm operation by operation."""

import functools


def make_train_step(loss_fn, optimizer, mesh, num_microbatches):
    def mean_grads(params, batch):
        def add(total, piece):
            found = jax.value_and_grad(loss_fn)(params, *piece)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        total, _ = jax.lax.scan(add, zeros, microbatches_of(batch, num_microbatches))
        mean = jax.tree.map(lambda leaf: leaf / num_microbatches, total)
        return jax.lax.pmean(mean, "data")

    specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
    spread = jax.jit(jax.shard_map(mean_grads, mesh=mesh, **specs))

    @functools.partial(jax.jit, donate_argnums=0)
    def update(state, grads):
        return updated(optimizer, state, grads)

    def step(state, batch):
        loss, grads = spread(state["params"], batch)
        metrics = {"loss": loss, "grad_norm": optax.tree.norm(grads)}
        return update(state, grads), metrics

    return step
