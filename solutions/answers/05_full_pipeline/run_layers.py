# %% wrong="checkpoint around the scan" fails="only inputs are kept"
# cause: the insides of two layers or more are there at once: checkpoint each layer
"""Computes all layers again at once: then all of their insides are there."""


def run_layers(layer, params, x):
    @jax.checkpoint
    def whole(params, x):
        return jax.lax.scan(lambda h, own: (layer(own, h), None), x, params)[0]

    return whole(params, x)


# %% wrong="checkpoints pairs" fails="only inputs are kept"
# cause: the insides of two layers or more are there at once: checkpoint each layer
"""Checkpoints pairs of layers: two layers' insides are there at once."""


def run_layers(layer, params, x):
    count = len(jax.tree.leaves(params)[0])
    size = 2 if count % 2 == 0 else 1
    groups = jax.tree.map(lambda a: a.reshape(-1, size, *a.shape[1:]), params)

    def step(x, own):
        return layer(own, x), None

    @jax.checkpoint
    def group(x, own):
        return jax.lax.scan(step, x, own)[0]

    return jax.lax.scan(lambda x, own: (group(x, own), None), x, groups)[0]


# %% wrong="donates x" fails="arguments stay"
"""Donates x: called without a gradient, it is gone."""

from functools import partial


@partial(jax.jit, static_argnums=0, donate_argnums=2)
def run_layers(layer, params, x):
    one = jax.checkpoint(layer)
    return jax.lax.scan(lambda x, own: (one(own, x), None), x, params)[0]


# %% wrong="keeps bfloat16" fails="same result; same gradient; only inputs are kept"
"""Halves the memory by bfloat16 in place of computing again."""


def run_layers(layer, params, x):
    low = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)

    def step(h, own):
        return layer(own, h).astype(jnp.bfloat16), None

    return jax.lax.scan(step, x.astype(jnp.bfloat16), low)[0].astype(jnp.float32)


# %% wrong="keeps everything" fails="only inputs are kept"
# cause: nothing is computed again: jax.checkpoint is missing
"""Scans without a checkpoint: all that a layer computed is kept."""


def run_layers(layer, params, x):
    return jax.lax.scan(lambda h, own: (layer(own, h), None), x, params)[0]


# %% wrong="keeps layers by name" fails="same result"
"""Keeps layers by their name: another one of the same name is not run."""

LAYERS_BY_NAME = {}


def run_layers(layer, params, x):
    name = getattr(layer, "__name__", layer)
    one = LAYERS_BY_NAME.setdefault(name, jax.checkpoint(layer))
    return jax.lax.scan(lambda x, own: (one(own, x), None), x, params)[0]


# %% wrong="layers from the last" fails="same result; same gradient"
"""Takes the layers from the last to the first."""


def run_layers(layer, params, x):
    kept = jax.checkpoint(layer)
    step = lambda h, own: (kept(own, h), None)  # noqa: E731
    return jax.lax.scan(step, x, params, reverse=True)[0]


# %% wrong="leaves the last layer out" fails="same result; same gradient"
"""Takes one layer too few."""


def run_layers(layer, params, x):
    kept = jax.checkpoint(layer)
    rest = jax.tree.map(lambda leaf: leaf[:-1], params)
    return jax.lax.scan(lambda h, own: (kept(own, h), None), x, rest)[0]


# %% wrong="python loop" fails="one loop"
"""Loops in Python: the program holds each layer anew."""


def run_layers(layer, params, x):
    kept = jax.checkpoint(layer)
    for number in range(len(jax.tree.leaves(params)[0])):
        x = kept(jax.tree.map(lambda leaf, n=number: leaf[n], params), x)
    return x


# %% wrong="rule without closures" fails="same result"
"""Writes the gradient's rule itself, and forgets arrays that the layer has from elsewhere."""


def run_layers(layer, params, x):
    @jax.custom_vjp
    def run(params, x):
        return jax.lax.scan(lambda x, own: (layer(own, x), None), x, params)[0]

    def forward(params, x):
        y, inputs = jax.lax.scan(lambda x, own: (layer(own, x), x), x, params)
        return y, (params, inputs)

    def backward(kept, grad):
        def back(grad, now):
            own, x = now
            own_grad, grad = jax.vjp(layer, own, x)[1](grad)
            return grad, own_grad

        grad, grads = jax.lax.scan(back, grad, kept, reverse=True)
        return grads, grad

    run.defvjp(forward, backward)
    return run(params, x)


# %% wrong="saves costly results" fails="only inputs are kept"
# cause: jax.checkpoint keeps more than a layer's input: a policy, or too small a part of the layer
"""Keeps what is costly to compute: the results of tanh and exp, in each layer."""


def run_layers(layer, params, x):
    def costly(primitive, *_, **__):
        return primitive.name in ("tanh", "exp", "logistic")

    one = jax.checkpoint(layer, policy=costly)
    return jax.lax.scan(lambda x, own: (one(own, x), None), x, params)[0]


# %% wrong="saves products" fails="only inputs are kept"
# cause: jax.checkpoint keeps more than a layer's input: a policy, or too small a part of the layer
"""Keeps the results of matrix products, which are the largest arrays."""


def run_layers(layer, params, x):
    policy = jax.checkpoint_policies.dots_saveable
    kept = jax.checkpoint(layer, policy=policy)
    return jax.lax.scan(lambda h, own: (kept(own, h), None), x, params)[0]


# %% wrong="stops the gradient" fails="same gradient"
"""Saves memory by giving the gradient of the parameters alone, not through the layers."""


def run_layers(layer, params, x):
    kept = jax.checkpoint(layer)

    def step(h, own):
        return kept(own, jax.lax.stop_gradient(h)), None

    return jax.lax.scan(step, x, params)[0]


# %% right="via a decorator"
"""Decorates the scan's step."""


def run_layers(layer, params, x):
    @jax.checkpoint
    def step(h, own):
        return layer(own, h), None

    last, _ = jax.lax.scan(step, x, params)
    return last


# %% right="via a policy"
"""Says by a policy that nothing of a layer is saved."""

from functools import partial


def run_layers(layer, params, x):
    policy = jax.checkpoint_policies.nothing_saveable

    @partial(jax.checkpoint, policy=policy)
    def step(h, own):
        return layer(own, h), 0.0

    return jax.lax.scan(step, x, params)[0]


# %% right="via custom vjp"
"""Writes the rule of the gradient itself: backward, a layer is computed again."""


def run_layers(layer, params, x):
    first = jax.tree.map(lambda leaf: leaf[0], params)
    # What the layer has from elsewhere becomes arguments: a rule sees no others.
    layer, others = jax.closure_convert(layer, first, x)

    @jax.custom_vjp
    def once(own, h, *others):
        return layer(own, h, *others)

    def forward(*inputs):
        return layer(*inputs), inputs

    def backward(inputs, grad):
        return jax.vjp(layer, *inputs)[1](grad)

    once.defvjp(forward, backward)
    return jax.lax.scan(lambda h, own: (once(own, h, *others), None), x, params)[0]


# %% right="via flat leaves"
"""Scans over a list of leaves, and builds each layer's tree."""


def run_layers(layer, params, x):
    leaves, structure = jax.tree.flatten(params)

    def step(h, parts):
        return jax.checkpoint(layer)(structure.unflatten(parts), h), None

    return jax.lax.scan(step, jnp.asarray(x), leaves)[0]


# %% right="via fori loop"
"""Counts the layers, and picks each one's part."""


def run_layers(layer, params, x):
    def own_part(number):
        return jax.tree.map(
            lambda leaf: jax.lax.dynamic_index_in_dim(leaf, number, keepdims=False),
            params,
        )

    num_layers = len(jax.tree.leaves(params)[0])
    once = jax.checkpoint(lambda h, own: layer(own, h))
    return jax.lax.fori_loop(0, num_layers, lambda n, h: once(h, own_part(n)), x)


# %% right="via remat"
"""Uses JAX's older name, and tells it that scan needs no barrier."""


def run_layers(layer, params, x):
    kept = jax.remat(layer, prevent_cse=False)
    return jax.lax.scan(lambda h, own: (kept(own, h), ()), x, xs=params)[0]
