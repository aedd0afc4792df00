# %% wrong="FSDP over all devices" fails="once between nodes"
# cause: weights are gathered over all devices: FSDP, not HSDP
"""Gathers weights over all devices: they cross the network."""


def hsdp_step(params, xs, ys, lr, mesh):
    specs = {
        "w1": P(None, ("node", "gpu")),
        "w2": P(None, None, ("node", "gpu")),
    }
    rows = P(None, ("node", "gpu"))

    def step(params, xs, ys):
        @jax.checkpoint
        def layer(x, w):
            w1 = jax.lax.all_gather(w["w1"], ("node", "gpu"), axis=0, tiled=True)
            w2 = jax.lax.all_gather(w["w2"], ("node", "gpu"), axis=1, tiled=True)
            return jax.nn.relu(x @ w1) @ w2, None

        def part(params, x, y):
            error = jax.lax.scan(layer, x, params)[0] - y
            return jnp.mean(error**2) / (mesh.size * len(xs))

        def add(total, batch):
            found = jax.value_and_grad(part)(params, *batch)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        (loss, grads), _ = jax.lax.scan(add, zeros, (xs, ys))
        new = jax.tree.map(lambda p, g: p - lr * g, params, grads)
        return new, jax.lax.psum(loss, ("node", "gpu"))

    mapped = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=(specs, rows, rows),
        out_specs=(specs, P()),
        check_vma=False,
    )
    params, loss = jax.jit(mapped)(params, xs, ys)
    kept = {"w1": P(None, "gpu"), "w2": P(None, None, "gpu")}
    on = {name: NamedSharding(mesh, spec) for name, spec in kept.items()}
    return jax.device_put(params, on), loss


# %% wrong="all-reduce in every microbatch" fails="once between nodes"
# cause: the gradients cross the network in every microbatch
"""Sums gradients between the nodes in each microbatch."""


def hsdp_step(params, xs, ys, lr, mesh):
    specs = {"w1": P(None, "gpu"), "w2": P(None, None, "gpu")}
    rows = P(None, ("node", "gpu"))

    def step(params, xs, ys):
        @jax.checkpoint
        def layer(x, w):
            w1 = jax.lax.all_gather(w["w1"], "gpu", axis=0, tiled=True)
            w2 = jax.lax.all_gather(w["w2"], "gpu", axis=1, tiled=True)
            return jax.nn.relu(x @ w1) @ w2, None

        def part(params, x, y):
            error = jax.lax.scan(layer, x, params)[0] - y
            return jnp.mean(error**2) / (mesh.size * len(xs))

        def add(total, batch):
            loss, grads = jax.value_and_grad(part)(params, *batch)
            found = loss, jax.lax.psum(grads, "node")
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        (loss, grads), _ = jax.lax.scan(add, zeros, (xs, ys))
        new = jax.tree.map(lambda p, g: p - lr * g, params, grads)
        return new, jax.lax.psum(loss, ("node", "gpu"))

    mapped = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=(specs, rows, rows),
        out_specs=(specs, P()),
        check_vma=False,
    )
    return jax.jit(mapped)(params, xs, ys)


# %% wrong="by the compiler" fails="once between nodes; gathers in the node"
# cause: the gradients cross the network in every microbatch
"""Leaves it to jit, which sums the gradients of each layer between the nodes."""


def hsdp_step(params, xs, ys, lr, mesh):
    on = {"w1": P(None, "gpu"), "w2": P(None, None, "gpu")}
    on = {name: NamedSharding(mesh, spec) for name, spec in on.items()}

    @functools.partial(jax.jit, out_shardings=(on, NamedSharding(mesh, P())))
    def step(params, xs, ys):
        return accumulated_step(params, xs, ys, lr, mesh)

    return step(params, xs, ys)


# %% wrong="keeps gathered weights" fails="layer by layer"
# cause: the gathered weights are kept for the backward pass
"""Gathers without jax.checkpoint: all layers' weights stay for the backward pass."""


def hsdp_step(params, xs, ys, lr, mesh):
    specs = {"w1": P(None, "gpu"), "w2": P(None, None, "gpu")}
    rows = P(None, ("node", "gpu"))

    def step(params, xs, ys):
        def layer(x, w):
            w1 = jax.lax.all_gather(w["w1"], "gpu", axis=0, tiled=True)
            w2 = jax.lax.all_gather(w["w2"], "gpu", axis=1, tiled=True)
            return jax.nn.relu(x @ w1) @ w2, None

        def part(params, x, y):
            error = jax.lax.scan(layer, x, params)[0] - y
            return jnp.mean(error**2) / (mesh.size * len(xs))

        def add(total, batch):
            found = jax.value_and_grad(part)(params, *batch)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        (loss, grads), _ = jax.lax.scan(add, zeros, (xs, ys))
        grads = jax.lax.psum(grads, "node")
        new = jax.tree.map(lambda p, g: p - lr * g, params, grads)
        return new, jax.lax.psum(loss, ("node", "gpu"))

    mapped = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=(specs, rows, rows),
        out_specs=(specs, P()),
        check_vma=False,
    )
    return jax.jit(mapped)(params, xs, ys)


# %% wrong="gathers all layers first" fails="layer by layer"
# cause: the weights of all layers are gathered at once
"""Gathers the whole stack before the loop over layers."""


def hsdp_step(params, xs, ys, lr, mesh):
    specs = {"w1": P(None, "gpu"), "w2": P(None, None, "gpu")}
    rows = P(None, ("node", "gpu"))

    def step(params, xs, ys):
        @jax.checkpoint
        def layer(x, w):
            return jax.nn.relu(x @ w["w1"]) @ w["w2"], None

        def part(params, x, y):
            w1 = jax.lax.all_gather(params["w1"], "gpu", axis=1, tiled=True)
            w2 = jax.lax.all_gather(params["w2"], "gpu", axis=2, tiled=True)
            params = {"w1": w1, "w2": w2}
            error = jax.lax.scan(layer, x, params)[0] - y
            return jnp.mean(error**2) / (mesh.size * len(xs))

        def add(total, batch):
            found = jax.value_and_grad(part)(params, *batch)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        (loss, grads), _ = jax.lax.scan(add, zeros, (xs, ys))
        grads = jax.lax.psum(grads, "node")
        new = jax.tree.map(lambda p, g: p - lr * g, params, grads)
        return new, jax.lax.psum(loss, ("node", "gpu"))

    mapped = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=(specs, rows, rows),
        out_specs=(specs, P()),
        check_vma=False,
    )
    return jax.jit(mapped)(params, xs, ys)


# %% wrong="sums for means" fails="same step"
"""Forgets to divide by the microbatches."""


def hsdp_step(params, xs, ys, lr, mesh):
    specs = {"w1": P(None, "gpu"), "w2": P(None, None, "gpu")}
    rows = P(None, ("node", "gpu"))

    def step(params, xs, ys):
        @jax.checkpoint
        def layer(x, w):
            w1 = jax.lax.all_gather(w["w1"], "gpu", axis=0, tiled=True)
            w2 = jax.lax.all_gather(w["w2"], "gpu", axis=1, tiled=True)
            return jax.nn.relu(x @ w1) @ w2, None

        def part(params, x, y):
            error = jax.lax.scan(layer, x, params)[0] - y
            return jnp.mean(error**2) / mesh.size

        def add(total, batch):
            found = jax.value_and_grad(part)(params, *batch)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        (loss, grads), _ = jax.lax.scan(add, zeros, (xs, ys))
        grads = jax.lax.psum(grads, "node")
        new = jax.tree.map(lambda p, g: p - lr * g, params, grads)
        return new, jax.lax.psum(loss, ("node", "gpu"))

    mapped = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=(specs, rows, rows),
        out_specs=(specs, P()),
        check_vma=False,
    )
    return jax.jit(mapped)(params, xs, ys)


# %% wrong="mean between nodes" fails="same step"
"""Averages over the nodes what is a part of a mean already."""


def hsdp_step(params, xs, ys, lr, mesh):
    specs = {"w1": P(None, "gpu"), "w2": P(None, None, "gpu")}
    rows = P(None, ("node", "gpu"))

    def step(params, xs, ys):
        @jax.checkpoint
        def layer(x, w):
            w1 = jax.lax.all_gather(w["w1"], "gpu", axis=0, tiled=True)
            w2 = jax.lax.all_gather(w["w2"], "gpu", axis=1, tiled=True)
            return jax.nn.relu(x @ w1) @ w2, None

        def part(params, x, y):
            error = jax.lax.scan(layer, x, params)[0] - y
            return jnp.mean(error**2) / (mesh.size * len(xs))

        def add(total, batch):
            found = jax.value_and_grad(part)(params, *batch)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        (loss, grads), _ = jax.lax.scan(add, zeros, (xs, ys))
        grads = jax.lax.pmean(grads, "node")
        new = jax.tree.map(lambda p, g: p - lr * g, params, grads)
        return new, jax.lax.psum(loss, ("node", "gpu"))

    mapped = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=(specs, rows, rows),
        out_specs=(specs, P()),
        check_vma=False,
    )
    return jax.jit(mapped)(params, xs, ys)


# %% wrong="no sum between nodes" fails="same step"
# cause: the gradients are not summed over the nodes
"""Never sums the gradients over the nodes: they drift apart."""


def hsdp_step(params, xs, ys, lr, mesh):
    specs = {"w1": P(None, "gpu"), "w2": P(None, None, "gpu")}
    rows = P(None, ("node", "gpu"))

    def step(params, xs, ys):
        @jax.checkpoint
        def layer(x, w):
            w1 = jax.lax.all_gather(w["w1"], "gpu", axis=0, tiled=True)
            w2 = jax.lax.all_gather(w["w2"], "gpu", axis=1, tiled=True)
            return jax.nn.relu(x @ w1) @ w2, None

        def part(params, x, y):
            error = jax.lax.scan(layer, x, params)[0] - y
            return jnp.mean(error**2) / (mesh.size * len(xs))

        def add(total, batch):
            found = jax.value_and_grad(part)(params, *batch)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        (loss, grads), _ = jax.lax.scan(add, zeros, (xs, ys))
        new = jax.tree.map(lambda p, g: p - lr * g, params, grads)
        return new, jax.lax.psum(loss, ("node", "gpu"))

    mapped = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=(specs, rows, rows),
        out_specs=(specs, P()),
        check_vma=False,
    )
    return jax.jit(mapped)(params, xs, ys)


# %% wrong="all-reduces in the node" fails="once between nodes; layer by layer"
# cause: the gradients of all GPUs of a node cross: first reduce-scatter in the node
"""Replicates the weights in the node, all-reduces their gradients, and cuts."""


def hsdp_step(params, xs, ys, lr, mesh):
    specs = {"w1": P(), "w2": P()}
    rows = P(None, ("node", "gpu"))

    def step(params, xs, ys):
        @jax.checkpoint
        def layer(x, w):
            return jax.nn.relu(x @ w["w1"]) @ w["w2"], None

        def part(params, x, y):
            error = jax.lax.scan(layer, x, params)[0] - y
            return jnp.mean(error**2) / (mesh.size * len(xs))

        def add(total, batch):
            found = jax.value_and_grad(part)(params, *batch)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        (loss, grads), _ = jax.lax.scan(add, zeros, (xs, ys))
        grads = jax.lax.psum(grads, ("gpu", "node"))
        new = jax.tree.map(lambda p, g: p - lr * g, params, grads)
        return new, jax.lax.psum(loss, ("node", "gpu"))

    mapped = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=(specs, rows, rows),
        out_specs=(specs, P()),
        check_vma=False,
    )
    params, loss = jax.jit(mapped)(params, xs, ys)
    kept = {"w1": P(None, "gpu"), "w2": P(None, None, "gpu")}
    on = {name: NamedSharding(mesh, spec) for name, spec in kept.items()}
    return jax.device_put(params, on), loss


# %% wrong="remembers its first step" fails="same step; nothing is remembered"
"""Compiles its step once for each shape, with the first learning rate."""


kept = {}


def hsdp_step(params, xs, ys, lr, mesh):
    specs = {"w1": P(None, "gpu"), "w2": P(None, None, "gpu")}
    rows = P(None, ("node", "gpu"))

    def step(params, xs, ys):
        @jax.checkpoint
        def layer(x, w):
            w1 = jax.lax.all_gather(w["w1"], "gpu", axis=0, tiled=True)
            w2 = jax.lax.all_gather(w["w2"], "gpu", axis=1, tiled=True)
            return jax.nn.relu(x @ w1) @ w2, None

        def part(params, x, y):
            error = jax.lax.scan(layer, x, params)[0] - y
            return jnp.mean(error**2) / (mesh.size * len(xs))

        def add(total, batch):
            found = jax.value_and_grad(part)(params, *batch)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        (loss, grads), _ = jax.lax.scan(add, zeros, (xs, ys))
        grads = jax.lax.psum(grads, "node")
        new = jax.tree.map(lambda p, g: p - lr * g, params, grads)
        return new, jax.lax.psum(loss, ("node", "gpu"))

    mapped = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=(specs, rows, rows),
        out_specs=(specs, P()),
        check_vma=False,
    )
    key = xs.shape, mesh
    return kept.setdefault(key, jax.jit(mapped))(params, xs, ys)


# %% wrong="changes the caller's dict" fails="arguments stay"
"""Writes the new weights into its caller's dict."""


def hsdp_step(params, xs, ys, lr, mesh):
    specs = {"w1": P(None, "gpu"), "w2": P(None, None, "gpu")}
    rows = P(None, ("node", "gpu"))

    def step(params, xs, ys):
        @jax.checkpoint
        def layer(x, w):
            w1 = jax.lax.all_gather(w["w1"], "gpu", axis=0, tiled=True)
            w2 = jax.lax.all_gather(w["w2"], "gpu", axis=1, tiled=True)
            return jax.nn.relu(x @ w1) @ w2, None

        def part(params, x, y):
            error = jax.lax.scan(layer, x, params)[0] - y
            return jnp.mean(error**2) / (mesh.size * len(xs))

        def add(total, batch):
            found = jax.value_and_grad(part)(params, *batch)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        (loss, grads), _ = jax.lax.scan(add, zeros, (xs, ys))
        grads = jax.lax.psum(grads, "node")
        new = jax.tree.map(lambda p, g: p - lr * g, params, grads)
        return new, jax.lax.psum(loss, ("node", "gpu"))

    mapped = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=(specs, rows, rows),
        out_specs=(specs, P()),
        check_vma=False,
    )
    new, loss = jax.jit(mapped)(params, xs, ys)
    params.update(new)
    return params, loss


# %% right="via a Python loop over layers"
"""Unrolls the layers; each is a checkpoint."""


def hsdp_step(params, xs, ys, lr, mesh):
    specs = {"w1": P(None, "gpu"), "w2": P(None, None, "gpu")}
    rows = P(None, ("node", "gpu"))

    def step(params, xs, ys):
        @jax.checkpoint
        def layer(x, w):
            w1 = jax.lax.all_gather(w["w1"], "gpu", axis=0, tiled=True)
            w2 = jax.lax.all_gather(w["w2"], "gpu", axis=1, tiled=True)
            return jax.nn.relu(x @ w1) @ w2, None

        def part(params, x, y):
            for n in range(len(params["w1"])):
                x, _ = layer(x, {"w1": params["w1"][n], "w2": params["w2"][n]})
            error = x - y
            return jnp.mean(error**2) / (mesh.size * len(xs))

        def add(total, batch):
            found = jax.value_and_grad(part)(params, *batch)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        (loss, grads), _ = jax.lax.scan(add, zeros, (xs, ys))
        grads = jax.lax.psum(grads, "node")
        new = jax.tree.map(lambda p, g: p - lr * g, params, grads)
        return new, jax.lax.psum(loss, ("node", "gpu"))

    mapped = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=(specs, rows, rows),
        out_specs=(specs, P()),
        check_vma=False,
    )
    return jax.jit(mapped)(params, xs, ys)


# %% right="via a Python loop over microbatches"
"""Unrolls the microbatches."""


def hsdp_step(params, xs, ys, lr, mesh):
    specs = {"w1": P(None, "gpu"), "w2": P(None, None, "gpu")}
    rows = P(None, ("node", "gpu"))

    def step(params, xs, ys):
        @jax.checkpoint
        def layer(x, w):
            w1 = jax.lax.all_gather(w["w1"], "gpu", axis=0, tiled=True)
            w2 = jax.lax.all_gather(w["w2"], "gpu", axis=1, tiled=True)
            return jax.nn.relu(x @ w1) @ w2, None

        def part(params, x, y):
            error = jax.lax.scan(layer, x, params)[0] - y
            return jnp.mean(error**2) / (mesh.size * len(xs))

        def add(total, batch):
            found = jax.value_and_grad(part)(params, *batch)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        loss, grads = zeros
        for batch in zip(xs, ys, strict=True):
            (loss, grads), _ = add((loss, grads), batch)
        grads = jax.lax.psum(grads, "node")
        new = jax.tree.map(lambda p, g: p - lr * g, params, grads)
        return new, jax.lax.psum(loss, ("node", "gpu"))

    mapped = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=(specs, rows, rows),
        out_specs=(specs, P()),
        check_vma=False,
    )
    return jax.jit(mapped)(params, xs, ys)


# %% right="via psum of both"
"""Sums loss and gradients between the nodes in one call."""


def hsdp_step(params, xs, ys, lr, mesh):
    specs = {"w1": P(None, "gpu"), "w2": P(None, None, "gpu")}
    rows = P(None, ("node", "gpu"))

    def step(params, xs, ys):
        @jax.checkpoint
        def layer(x, w):
            w1 = jax.lax.all_gather(w["w1"], "gpu", axis=0, tiled=True)
            w2 = jax.lax.all_gather(w["w2"], "gpu", axis=1, tiled=True)
            return jax.nn.relu(x @ w1) @ w2, None

        def part(params, x, y):
            error = jax.lax.scan(layer, x, params)[0] - y
            return jnp.mean(error**2) / (mesh.size * len(xs))

        def add(total, batch):
            found = jax.value_and_grad(part)(params, *batch)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        (loss, grads), _ = jax.lax.scan(add, zeros, (xs, ys))
        loss, grads = jax.lax.psum((loss, grads), "node")
        new = jax.tree.map(lambda p, g: p - lr * g, params, grads)
        return new, jax.lax.psum(loss, "gpu")

    mapped = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=(specs, rows, rows),
        out_specs=(specs, P()),
        check_vma=False,
    )
    return jax.jit(mapped)(params, xs, ys)


# %% right="via saved products"
"""Keeps the products for the backward pass, and gathers again."""


def hsdp_step(params, xs, ys, lr, mesh):
    specs = {"w1": P(None, "gpu"), "w2": P(None, None, "gpu")}
    rows = P(None, ("node", "gpu"))

    def step(params, xs, ys):
        def layer(x, w):
            w1 = jax.lax.all_gather(w["w1"], "gpu", axis=0, tiled=True)
            w2 = jax.lax.all_gather(w["w2"], "gpu", axis=1, tiled=True)
            return jax.nn.relu(x @ w1) @ w2, None

        dots = jax.checkpoint_policies.dots_saveable
        layer = jax.checkpoint(layer, policy=dots)

        def part(params, x, y):
            error = jax.lax.scan(layer, x, params)[0] - y
            return jnp.mean(error**2) / (mesh.size * len(xs))

        def add(total, batch):
            found = jax.value_and_grad(part)(params, *batch)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        (loss, grads), _ = jax.lax.scan(add, zeros, (xs, ys))
        grads = jax.lax.psum(grads, "node")
        new = jax.tree.map(lambda p, g: p - lr * g, params, grads)
        return new, jax.lax.psum(loss, ("node", "gpu"))

    mapped = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=(specs, rows, rows),
        out_specs=(specs, P()),
        check_vma=False,
    )
    return jax.jit(mapped)(params, xs, ys)


# %% right="via means"
"""Takes pmean over the devices after a mean over own rows."""


def hsdp_step(params, xs, ys, lr, mesh):
    specs = {"w1": P(None, "gpu"), "w2": P(None, None, "gpu")}
    rows = P(None, ("node", "gpu"))

    def step(params, xs, ys):
        @jax.checkpoint
        def layer(x, w):
            w1 = jax.lax.all_gather(w["w1"], "gpu", axis=0, tiled=True)
            w2 = jax.lax.all_gather(w["w2"], "gpu", axis=1, tiled=True)
            return jax.nn.relu(x @ w1) @ w2, None

        def part(params, x, y):
            error = jax.lax.scan(layer, x, params)[0] - y
            return jnp.mean(error**2) / len(xs)

        def add(total, batch):
            found = jax.value_and_grad(part)(params, *batch)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        (loss, grads), _ = jax.lax.scan(add, zeros, (xs, ys))
        grads = jax.lax.pmean(grads, "node")
        new = jax.tree.map(lambda p, g: p - lr * g / mesh.shape["gpu"], params, grads)
        return new, jax.lax.pmean(loss, ("node", "gpu"))

    mapped = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=(specs, rows, rows),
        out_specs=(specs, P()),
        check_vma=False,
    )
    return jax.jit(mapped)(params, xs, ys)


# %% right="via grad and a new loss"
"""Sums the losses itself, and differentiates all layers of one microbatch."""


def hsdp_step(params, xs, ys, lr, mesh):
    specs = {"w1": P(None, "gpu"), "w2": P(None, None, "gpu")}
    rows = P(None, ("node", "gpu"))

    def step(params, xs, ys):
        @jax.checkpoint
        def layer(x, w):
            w1 = jax.lax.all_gather(w["w1"], "gpu", axis=0, tiled=True)
            w2 = jax.lax.all_gather(w["w2"], "gpu", axis=1, tiled=True)
            return jax.nn.relu(x @ w1) @ w2, None

        def part(params, x, y):
            error = jax.lax.scan(layer, x, params)[0] - y
            return jnp.mean(error**2) / (mesh.size * len(xs))

        def add(total, batch):
            loss, pull = jax.vjp(lambda p: part(p, *batch), params)
            found = loss, pull(jnp.ones_like(loss))[0]
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        (loss, grads), _ = jax.lax.scan(add, zeros, (xs, ys))
        grads = jax.lax.psum(grads, "node")
        new = jax.tree.map(lambda p, g: p - lr * g, params, grads)
        return new, jax.lax.psum(loss, ("node", "gpu"))

    mapped = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=(specs, rows, rows),
        out_specs=(specs, P()),
        check_vma=False,
    )
    return jax.jit(mapped)(params, xs, ys)


# %% right="without jit"
"""Calls shard_map as it is."""


def hsdp_step(params, xs, ys, lr, mesh):
    specs = {"w1": P(None, "gpu"), "w2": P(None, None, "gpu")}
    rows = P(None, ("node", "gpu"))

    def step(params, xs, ys):
        @jax.checkpoint
        def layer(x, w):
            w1 = jax.lax.all_gather(w["w1"], "gpu", axis=0, tiled=True)
            w2 = jax.lax.all_gather(w["w2"], "gpu", axis=1, tiled=True)
            return jax.nn.relu(x @ w1) @ w2, None

        def part(params, x, y):
            error = jax.lax.scan(layer, x, params)[0] - y
            return jnp.mean(error**2) / (mesh.size * len(xs))

        def add(total, batch):
            found = jax.value_and_grad(part)(params, *batch)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        (loss, grads), _ = jax.lax.scan(add, zeros, (xs, ys))
        grads = jax.lax.psum(grads, "node")
        new = jax.tree.map(lambda p, g: p - lr * g, params, grads)
        return new, jax.lax.psum(loss, ("node", "gpu"))

    mapped = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=(specs, rows, rows),
        out_specs=(specs, P()),
        check_vma=False,
    )
    return mapped(params, xs, ys)


# %% wrong="sums over all GPUs" fails="same step; once between nodes"
# cause: the gradients are summed over GPUs that hold different parts of them
"""Sums the gradients over the GPUs of a node, too."""


def hsdp_step(params, xs, ys, lr, mesh):
    specs = {"w1": P(None, "gpu"), "w2": P(None, None, "gpu")}
    rows = P(None, ("node", "gpu"))

    def step(params, xs, ys):
        @jax.checkpoint
        def layer(x, w):
            w1 = jax.lax.all_gather(w["w1"], "gpu", axis=0, tiled=True)
            w2 = jax.lax.all_gather(w["w2"], "gpu", axis=1, tiled=True)
            return jax.nn.relu(x @ w1) @ w2, None

        def part(params, x, y):
            error = jax.lax.scan(layer, x, params)[0] - y
            return jnp.mean(error**2) / (mesh.size * len(xs))

        def add(total, batch):
            found = jax.value_and_grad(part)(params, *batch)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        (loss, grads), _ = jax.lax.scan(add, zeros, (xs, ys))
        loss = jax.lax.psum(loss, ("node", "gpu"))
        grads = jax.lax.psum(grads, ("node", "gpu"))
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    mapped = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=(specs, rows, rows),
        out_specs=(specs, P()),
        check_vma=False,
    )
    return jax.jit(mapped)(params, xs, ys)


# %% wrong="gathers the gradients" fails="once between nodes"
# cause: the gradients of all nodes are gathered: an all-reduce sends less
"""Sends the gradients of each node to all others, which sum them."""


def hsdp_step(params, xs, ys, lr, mesh):
    specs = {"w1": P(None, "gpu"), "w2": P(None, None, "gpu")}
    rows = P(None, ("node", "gpu"))

    def step(params, xs, ys):
        @jax.checkpoint
        def layer(x, w):
            w1 = jax.lax.all_gather(w["w1"], "gpu", axis=0, tiled=True)
            w2 = jax.lax.all_gather(w["w2"], "gpu", axis=1, tiled=True)
            return jax.nn.relu(x @ w1) @ w2, None

        def part(params, x, y):
            error = jax.lax.scan(layer, x, params)[0] - y
            return jnp.mean(error**2) / (mesh.size * len(xs))

        def add(total, batch):
            found = jax.value_and_grad(part)(params, *batch)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        (loss, grads), _ = jax.lax.scan(add, zeros, (xs, ys))
        loss = jax.lax.psum(loss, ("node", "gpu"))
        gathered = jax.lax.all_gather(grads, "node")
        grads = jax.tree.map(lambda all_nodes: all_nodes.sum(0), gathered)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    mapped = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=(specs, rows, rows),
        out_specs=(specs, P()),
        check_vma=False,
    )
    return jax.jit(mapped)(params, xs, ys)


# %% wrong="gathers the rows of a node" fails="own rows; gathers in the node"
"""Lets each GPU compute all rows of its node."""


def hsdp_step(params, xs, ys, lr, mesh):
    specs = {"w1": P(None, "gpu"), "w2": P(None, None, "gpu")}
    rows = P(None, ("node", "gpu"))

    def step(params, xs, ys):
        xs, ys = jax.lax.all_gather((xs, ys), "gpu", axis=1, tiled=True)

        @jax.checkpoint
        def layer(x, w):
            w1 = jax.lax.all_gather(w["w1"], "gpu", axis=0, tiled=True)
            w2 = jax.lax.all_gather(w["w2"], "gpu", axis=1, tiled=True)
            return jax.nn.relu(x @ w1) @ w2, None

        def part(params, x, y):
            error = jax.lax.scan(layer, x, params)[0] - y
            return jnp.mean(error**2) / (mesh.size * len(xs))

        def add(total, batch):
            found = jax.value_and_grad(part)(params, *batch)
            return jax.tree.map(jnp.add, total, found), None

        zeros = 0.0, jax.tree.map(jnp.zeros_like, params)
        (loss, grads), _ = jax.lax.scan(add, zeros, (xs, ys))
        loss, grads = jax.lax.psum(loss, mesh.axis_names), jax.lax.psum(grads, "node")
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss

    mapped = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=(specs, rows, rows),
        out_specs=(specs, P()),
        check_vma=False,
    )
    return jax.jit(mapped)(params, xs, ys)
