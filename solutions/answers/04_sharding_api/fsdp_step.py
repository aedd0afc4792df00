# %% wrong="adam starts afresh" fails="same numbers; state donated"
"""Makes a new optimizer state in each step: Adam forgets."""


def fsdp_step(shardings):
    def step(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        updates, adam = make_adam().update(
            grads, make_adam().init(state["params"]), state["params"]
        )
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, loss

    return jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)


# %% wrong="clips large gradients" fails="same numbers"
"""Clips gradients, which the page does not ask for."""


def fsdp_step(shardings):
    def step(state, x, y):
        loss, g = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        g = jax.tree.map(lambda g: jnp.clip(g, -1e3, 1e3), g)
        u, adam = make_adam().update(g, state["adam"], state["params"])
        return {"params": optax.apply_updates(state["params"], u), "adam": adam}, loss

    return jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)


# %% wrong="compiles in each step" fails="no recompilation"
"""Calls jit inside the step, on a new function each time."""


def fsdp_step(shardings):
    def jitted(state, x, y):
        def step(state, x, y):
            loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
            updates, adam = make_adam().update(grads, state["adam"], state["params"])
            params = optax.apply_updates(state["params"], updates)
            return {"params": params, "adam": adam}, loss

        whole = jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)
        return whole(state, x, y)

    return jitted


# %% wrong="donates the parameters alone" fails="state donated"
"""Gives away the parameters; Adam's old moments stay."""


def fsdp_step(shardings):
    def step(params, adam, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
        updates, adam = make_adam().update(grads, adam, params)
        return {"params": optax.apply_updates(params, updates), "adam": adam}, loss

    jitted = jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)
    return lambda state, x, y: jitted(state["params"], state["adam"], x, y)


# %% wrong="eps inside root" fails="same numbers"
"""Adam with its eps inside the root: another step where gradients are small."""


def fsdp_step(shardings):
    adam_with_root = optax.adam(0.003, eps=0.0, eps_root=1e-16)

    def step(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        updates, adam = adam_with_root.update(grads, state["adam"], state["params"])
        return {
            "params": optax.apply_updates(state["params"], updates),
            "adam": adam,
        }, loss

    return jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)


# %% wrong="gathers all layers" fails="layer by layer"
# cause: the weights of all layers are gathered before the loop over layers
"""Replicates the weights before the loop: all layers at once, on every device."""


def fsdp_step(shardings):
    mesh = shardings["params"]["w1"].mesh

    def loss_of(params, x, y):
        whole = NamedSharding(mesh, P())
        return mlp_loss(jax.lax.with_sharding_constraint(params, whole), x, y)

    def step(state, x, y):
        loss, grads = jax.value_and_grad(loss_of)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, loss

    return jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)


# %% wrong="gathers the batch" fails="own rows; layer by layer"
# cause: every device computes all rows of the batch
"""Replicates the batch: each device computes all rows."""


def fsdp_step(shardings):
    mesh = shardings["params"]["w1"].mesh

    def loss_of(params, x, y):
        whole = NamedSharding(mesh, P())
        constrain = jax.lax.with_sharding_constraint
        return mlp_loss(constrain(params, whole), *constrain((x, y), whole))

    def step(state, x, y):
        loss, grads = jax.value_and_grad(loss_of)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, loss

    return jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)


# %% wrong="gathers the whole stack" fails="layer by layer"
# cause: the weights of all layers are gathered before the loop over layers
"""Breaks "gathers a layer's weights for use and drops them": all layers are gathered at
once, forward and again backward (the same bytes).
"""


def fsdp_step(shardings):
    mesh = jax.tree.leaves(shardings)[0].mesh
    whole = NamedSharding(mesh, P())

    @jax.checkpoint
    def loss_of(params, x, y):
        params = jax.lax.with_sharding_constraint(
            params, jax.tree.map(lambda _: whole, params)
        )
        return mlp_loss(params, x, y)

    def step(state, x, y):
        loss, grads = jax.value_and_grad(loss_of)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        return {
            "params": optax.apply_updates(state["params"], updates),
            "adam": adam,
        }, loss

    return jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)


# %% wrong="keeps the moments whole" fails="stays sharded; layer by layer; state donated; no recompilation"
# cause: replicated on every device
"""Shards the weights alone; Adam's moments are twice as large."""


def fsdp_step(shardings):
    mesh = shardings["params"]["w1"].mesh
    whole = jax.tree.map(lambda _: NamedSharding(mesh, P()), shardings["adam"])
    kept = {"params": shardings["params"], "adam": whole}

    def step(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, loss

    return jax.jit(step, out_shardings=(kept, None), donate_argnums=0)


# %% wrong="keeps the old state" fails="state donated"
"""Does not donate: two states in memory at the end of a step."""


def fsdp_step(shardings):
    def step(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, loss

    return jax.jit(step, out_shardings=(shardings, None))


# %% wrong="keeps the weights whole" fails="stays sharded; layer by layer; state donated; no recompilation"
# cause: replicated on every device
"""Gathers the weights and keeps them: right on one device, eight times the memory on
eight.
"""


def fsdp_step(shardings):
    mesh = shardings["params"]["w1"].mesh
    whole = jax.tree.map(lambda _: NamedSharding(mesh, P()), shardings["params"])
    kept = {"params": whole, "adam": shardings["adam"]}

    def step(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, loss

    return jax.jit(step, out_shardings=(kept, None), donate_argnums=0)


# %% wrong="large batch in pieces" fails="layer by layer"
"""Sums gradients over devices once per 256 rows of a large batch."""


def fsdp_step(shardings):
    most = 256

    def gradients(params, x, y):
        if len(x) <= most or len(x) % most:
            return jax.value_and_grad(mlp_loss)(params, x, y)

        def add(total, piece):
            found = jax.value_and_grad(mlp_loss)(params, *piece)
            return jax.tree.map(jnp.add, total, found), None

        pieces = [part.reshape(-1, most, part.shape[1]) for part in (x, y)]
        zero = jnp.zeros(()), jax.tree.map(jnp.zeros_like, params)
        total, _ = jax.lax.scan(add, zero, pieces)
        return jax.tree.map(lambda t: t / len(pieces[0]), total)

    def step(state, x, y):
        loss, grads = gradients(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, loss

    return jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)


# %% wrong="leaves shardings out" fails="stays sharded"
# cause: the weights came out sharded like their moments
"""Trusts the compiler to keep the layout: the new state is sharded like the old."""


def fsdp_step(shardings):
    def step(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, loss

    return jax.jit(step, donate_argnums=0)


# %% wrong="moments like params" fails="stays sharded"
"""Shards the moments like the weights, also where `shardings` says otherwise."""


def fsdp_step(shardings):
    like, (scale, rest) = shardings["params"], shardings["adam"]
    own = {"params": like, "adam": (scale._replace(mu=like, nu=like), rest)}

    def step(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        return {
            "params": optax.apply_updates(state["params"], updates),
            "adam": adam,
        }, loss

    return jax.jit(step, out_shardings=(own, None), donate_argnums=0)


# %% wrong="no epsilon" fails="same numbers"
# cause: nan comes from 0 / 0, inf - inf or 0 * inf, or from the root or logarithm of a negative number
"""Breaks "a step with make_adam()": Adam by hand without epsilon; where gradients are 0
(a dead hidden unit, x of zeros) it is nan.
"""


def fsdp_step(shardings):
    def step(state, x, y):
        params, adam = state["params"], state["adam"]
        loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
        t = adam[0].count + 1
        mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, adam[0].mu, grads)
        nu = jax.tree.map(lambda n, g: 0.999 * n + 0.001 * g * g, adam[0].nu, grads)
        c1, c2 = 1 - 0.9**t, 1 - 0.999**t
        new = jax.tree.map(
            lambda p, m, n: p - 0.003 * (m / c1) / jnp.sqrt(n / c2), params, mu, nu
        )
        return {
            "params": new,
            "adam": (adam[0]._replace(count=t, mu=mu, nu=nu), *adam[1:]),
        }, loss

    return jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)


# %% wrong="no jit" fails="state donated; no recompilation"
"""Returns a function that nobody compiles; it places the new state by hand."""


def fsdp_step(shardings):
    def step(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return jax.device_put({"params": params, "adam": adam}, shardings), loss

    return step


# %% wrong="own count" fails="same numbers"
"""Corrects Adam's bias by its own count of calls, not by the state's."""


def fsdp_step(shardings):
    calls = itertools.count()

    @functools.partial(jax.jit, out_shardings=(shardings, None), donate_argnums=0)
    def step(state, x, y, count):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        adam = state["adam"]
        first = adam[0]._replace(count=count)
        updates, new = make_adam().update(grads, (first, *adam[1:]), state["params"])
        new = (new[0]._replace(count=adam[0].count + 1), *new[1:])
        return {
            "params": optax.apply_updates(state["params"], updates),
            "adam": new,
        }, loss

    return lambda state, x, y: step(state, x, y, np.int32(next(calls)))


# %% wrong="pops shardings" fails="arguments stay"
"""Takes the shardings out of its caller's tree."""


def fsdp_step(shardings):
    params_on, adam_on = shardings.pop("params"), shardings.pop("adam")

    def step(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        return {
            "params": optax.apply_updates(state["params"], updates),
            "adam": adam,
        }, loss

    return jax.jit(
        step,
        out_shardings=({"params": params_on, "adam": adam_on}, None),
        donate_argnums=0,
    )


# %% wrong="remembers the first shardings" fails="stays sharded"
# cause: the weights came out sharded like their moments
"""Makes one step for all shardings: the first ones."""

made = []


def fsdp_step(shardings):
    def step(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, loss

    if not made:
        made.append(jax.jit(step, out_shardings=(shardings, None), donate_argnums=0))
    return made[0]


# %% wrong="returns the new loss" fails="same numbers; layer by layer"
# cause: the loss is the one after the step
"""Returns the loss of the new parameters."""


def fsdp_step(shardings):
    def step(state, x, y):
        grads = jax.grad(mlp_loss)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, mlp_loss(params, x, y)

    return jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)


# %% wrong="splits as the check does" fails="stays sharded"
# cause: the weights came out sharded like their moments
"""Splits along W, whatever `shardings` says."""


def fsdp_step(shardings):
    mesh = shardings["params"]["w1"].mesh

    def step(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, loss

    shapes = jax.eval_shape(lambda: make_state(jax.random.key(0), 1, 2))
    fixed = state_shardings(mesh, shapes, specs_by({"embed": "data"}))
    return jax.jit(step, out_shardings=(fixed, None), donate_argnums=0)


# %% wrong="sums over devices" fails="same numbers"
"""Multiplies the loss by the number of devices, as if gradients were averages."""


def fsdp_step(shardings):
    def step(state, x, y):
        loss, grads = jax.value_and_grad(lambda *a: mlp_loss(*a) * jax.device_count())(
            state["params"], x, y
        )
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, loss

    return jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)


# %% wrong="two layers" fails="same numbers"
"""Writes the two layers of the check's model."""


def fsdp_step(shardings):
    @jax.checkpoint
    def layer(x, w1, w2):
        return jax.nn.relu(x @ w1) @ w2

    def loss_of(params, x, y):
        for i in range(2):
            x = layer(x, params["w1"][i], params["w2"][i])
        return jnp.mean((x - y) ** 2)

    def step(state, x, y):
        loss, grads = jax.value_and_grad(loss_of)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, loss

    return jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)


# %% wrong="unrolls the layers" fails="layer by layer"
# cause: gathered weights are kept for the backward pass
"""Goes through the layers in Python: what is gathered forward is kept for backward."""


def fsdp_step(shardings):
    def loss_of(params, x, y):
        for w1, w2 in zip(params["w1"], params["w2"], strict=True):
            x = jax.nn.relu(x @ w1) @ w2
        return jnp.mean((x - y) ** 2)

    def step(state, x, y):
        loss, grads = jax.value_and_grad(loss_of)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, loss

    return jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)


# %% right="via argument names"
"""Donates by name, in a decorator."""


def fsdp_step(shardings):
    @functools.partial(
        jax.jit, out_shardings=(shardings, None), donate_argnames=("state",)
    )
    def step(state, x, y):
        params = state["params"]
        loss, grads = jax.value_and_grad(lambda p: mlp_loss(p, x, y))(params)
        updates, adam = make_adam().update(grads, state["adam"])
        params = jax.tree.map(jnp.add, params, updates)
        return {"params": params, "adam": adam}, loss

    return step


# %% right="via checkpoint"
"""Goes through the layers in Python, under jax.checkpoint: weights are gathered again."""


def fsdp_step(shardings):
    @jax.checkpoint
    def layer(x, w1, w2):
        return jax.nn.relu(x @ w1) @ w2

    def loss_of(params, x, y):
        for w1, w2 in zip(params["w1"], params["w2"], strict=True):
            x = layer(x, w1, w2)
        return jnp.mean((x - y) ** 2)

    def step(state, x, y):
        loss, grads = jax.value_and_grad(loss_of)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, loss

    return jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)


# %% right="via class"
"""Returns an object that one calls, with flat lists inside."""


class Step:
    def __init__(self, shardings):
        leaves, self.tree = jax.tree.flatten(shardings)
        self.run = jax.jit(self.flat, out_shardings=(leaves, None), donate_argnums=0)

    def flat(self, leaves, x, y):
        state = jax.tree.unflatten(self.tree, leaves)
        loss, grads = jax.value_and_grad(mlp_loss, argnums=0)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"])
        params = jax.tree.map(lambda p, u: p + u, state["params"], updates)
        return jax.tree.leaves({"params": params, "adam": adam}), loss

    def __call__(self, state, x, y):
        leaves, loss = self.run(jax.tree.leaves(state), x, y)
        return jax.tree.unflatten(self.tree, leaves), loss


def fsdp_step(shardings):
    return Step(shardings)


# %% right="via constraints"
"""Constrains the new state inside the step."""


def fsdp_step(shardings):
    def step(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return jax.lax.with_sharding_constraint(
            {"params": params, "adam": adam}, shardings
        ), loss

    return jax.jit(step, donate_argnums=0)


# %% right="via scan with checkpoint"
"""Writes the scan again, under jax.checkpoint."""


def fsdp_step(shardings):
    @jax.checkpoint
    def layer(x, w):
        return jnp.maximum(jnp.matmul(x, w["w1"]), 0) @ w["w2"], ()

    def loss_of(params, batch):
        x, y = batch
        out, _ = jax.lax.scan(layer, x, params)
        return jnp.square(out - y).mean()

    def step(state, *batch):
        optimizer = make_adam()
        loss, grads = jax.value_and_grad(loss_of)(state["params"], batch)
        updates, adam = optimizer.update(grads, state["adam"], state["params"])
        new = dict(
            state, params=optax.apply_updates(state["params"], updates), adam=adam
        )
        return new, loss

    return jax.jit(step, donate_argnums=(0,), out_shardings=(shardings, None))


# %% right="via set mesh"
"""Sets the mesh, and constrains the new state to plain specs."""


def fsdp_step(shardings):
    mesh = shardings["params"]["w1"].mesh
    specs = jax.tree.map(lambda sharding: sharding.spec, shardings)

    @functools.partial(jax.jit, donate_argnames="state")
    def step(state, x, y):
        loss, pull = jax.vjp(lambda params: mlp_loss(params, x, y), state["params"])
        grads = pull(jnp.ones_like(loss))[0]
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        new = {"params": optax.apply_updates(state["params"], updates), "adam": adam}
        return jax.tree.map(jax.lax.with_sharding_constraint, new, specs), loss

    def check(state, x, y):
        with jax.set_mesh(mesh):
            return step(state, x, y)

    return check


# %% right="via in shardings"
"""Says the layout of the old state, too, which is that of the new one."""


def fsdp_step(shardings):
    def step(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, loss

    return jax.jit(
        step,
        in_shardings=(shardings, None, None),
        out_shardings=(shardings, None),
        donate_argnums=0,
    )


# %% wrong="replicates the gradients" fails="layer by layer"
# cause: gradients or moments are replicated: they can be sharded like the weights
"""Gives each device the gradients of all layers, in full."""


def fsdp_step(shardings):
    mesh = shardings["params"]["w1"].mesh
    whole = NamedSharding(mesh, P())

    def step(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        grads = jax.lax.with_sharding_constraint(grads, whole)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, loss

    return jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)


# %% wrong="replicates the gradients between two programs" fails="layer by layer"
# cause: gradients or moments are replicated: they can be sharded like the weights
"""Computes the gradients in one program, in full, and updates in another."""


def fsdp_step(shardings):
    mesh = shardings["params"]["w1"].mesh
    whole = NamedSharding(mesh, P())
    gradients = jax.jit(jax.value_and_grad(mlp_loss), out_shardings=whole)

    @functools.partial(jax.jit, out_shardings=shardings, donate_argnums=0)
    def update(state, grads):
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}

    def step(state, x, y):
        loss, grads = gradients(state["params"], x, y)
        return update(state, grads), loss

    return step


# %% right="via two programs"
"""Computes gradients in one program and updates in another: they stay sharded."""


def fsdp_step(shardings):
    out = None, shardings["params"]
    gradients = jax.jit(jax.value_and_grad(mlp_loss), out_shardings=out)

    @functools.partial(jax.jit, out_shardings=shardings, donate_argnums=0)
    def update(state, grads):
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}

    def step(state, x, y):
        loss, grads = gradients(state["params"], x, y)
        return update(state, grads), loss

    return step


# %% right="via constrained gradients"
"""Constrains gradients to the weights' shardings."""


def fsdp_step(shardings):
    def step(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        grads = jax.lax.with_sharding_constraint(grads, shardings["params"])
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = jax.tree.map(lambda p, u: p + u, state["params"], updates)
        return {"params": params, "adam": adam}, loss

    return jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)


# %% wrong="checkpoints the loss" fails="layer by layer"
# cause: weights are gathered three times: the forward pass runs twice
"""Runs the whole forward pass again before the backward pass."""


def fsdp_step(shardings):
    def step(state, x, y):
        loss_of = jax.checkpoint(mlp_loss)
        loss, grads = jax.value_and_grad(loss_of)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, loss

    return jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)


# %% wrong="steps without moments" fails="same numbers"
# cause: the state of Adam is the old one: return what its update returns
"""Subtracts the gradients, and returns the state of Adam as it was."""


def fsdp_step(shardings):
    def step(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        params = jax.tree.map(lambda p, g: p - 0.003 * g, state["params"], grads)
        return {"params": params, "adam": state["adam"]}, loss

    return jax.jit(step, out_shardings=(shardings, None), donate_argnums=0)


# %% wrong="forgets the loss" fails="same numbers"
# cause: out_shardings need the structure of what the function returns: a tuple of two for two results
"""Gives shardings for the state alone, although the step also returns the loss."""


def fsdp_step(shardings):
    def step(state, x, y):
        loss, grads = jax.value_and_grad(mlp_loss)(state["params"], x, y)
        updates, adam = make_adam().update(grads, state["adam"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "adam": adam}, loss

    return jax.jit(step, out_shardings=shardings, donate_argnums=0)
