# %% wrong="casts nothing" fails="bfloat16 products"
# cause: nothing is cast to bfloat16
"""Trusts that the products of float32 arrays are fast enough."""


def mixed_precision_loss(params, x, y):
    return digits_loss(params, x, y)


# %% wrong="casts the images alone" fails="bfloat16 products"
# cause: factors are rounded, and then multiplied in float32: both of a product must be bfloat16
"""Casts x and not the weights: the product is promoted to float32."""


def mixed_precision_loss(params, x, y):
    h = jnp.tanh(x.astype(jnp.bfloat16) @ params["w1"] + params["b1"])
    logits = h.astype(jnp.bfloat16) @ params["w2"] + params["b2"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


# %% wrong="casts the result alone" fails="float32 from the logits on"
# cause: the softmax gets bfloat16 logits
"""Computes the softmax in bfloat16, too, and casts the loss at the end."""


def mixed_precision_loss(params, x, y):
    low = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
    return digits_loss(low, x.astype(jnp.bfloat16), y).astype(jnp.float32)


# %% wrong="first layer alone" fails="bfloat16 products"
# cause: a product gets a float32 factor
"""Forgets that a float32 bias promotes: the second product is float32 again."""


def mixed_precision_loss(params, x, y):
    w1, w2 = params["w1"].astype(jnp.bfloat16), params["w2"].astype(jnp.bfloat16)
    h = jnp.tanh(x.astype(jnp.bfloat16) @ w1 + params["b1"])
    logits = h @ w2 + params["b2"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


# %% wrong="float16" fails="bfloat16 products"
"""Takes float16, whose range is small."""


def mixed_precision_loss(params, x, y):
    low = jax.tree.map(lambda leaf: leaf.astype(jnp.float16), params)
    h = jnp.tanh(x.astype(jnp.float16) @ low["w1"] + low["b1"])
    logits = (h @ low["w2"]).astype(jnp.float32) + params["b2"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


# %% wrong="forgets the second bias" fails="same loss; float32 gradients"
"""Leaves the last layer's bias out."""


def mixed_precision_loss(params, x, y):
    def product(a, b):
        return (a.astype(jnp.bfloat16) @ b.astype(jnp.bfloat16)).astype(jnp.float32)

    h = jnp.tanh(product(x, params["w1"]) + params["b1"])
    logits = product(h, params["w2"])
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


# %% wrong="gradient in float32" fails="bfloat16 products"
# cause: the loss's own products are bfloat16, its gradient's are not
"""Lets the products give float32 at once: so the gradient's products get a float32
factor.
"""


def mixed_precision_loss(params, x, y):
    def product(a, b):
        a, b = a.astype(jnp.bfloat16), b.astype(jnp.bfloat16)
        return jnp.matmul(a, b, preferred_element_type=jnp.float32)

    h = jnp.tanh(product(x, params["w1"]) + params["b1"])
    logits = product(h, params["w2"]) + params["b2"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


# %% wrong="max in bfloat16" fails="float32 from the logits on"
"""Takes the softmax's maximum off while logits are bfloat16."""


def mixed_precision_loss(params, x, y):
    low = {name: a.astype(jnp.bfloat16) for name, a in params.items()}
    h = jnp.tanh(x.astype(jnp.bfloat16) @ low["w1"] + low["b1"])
    logits = h @ low["w2"] + low["b2"]
    logits = (logits - logits.max(axis=1, keepdims=True)).astype(jnp.float32)
    logp = logits - jnp.log(jnp.exp(logits).sum(axis=1, keepdims=True))
    return -jnp.take_along_axis(logp, y[:, None], axis=1).mean()


# %% wrong="max taken off in bf16" fails="float32 from the logits on"
"""Subtracts the largest logit before the cast to float32: the differences are rounded."""


def mixed_precision_loss(params, x, y):
    def half(a):
        return a.astype(jnp.bfloat16)

    h = jnp.tanh((half(x) @ half(params["w1"])).astype(jnp.float32) + params["b1"])
    logits = half(h) @ half(params["w2"]) + half(params["b2"])
    stable = (logits - logits.max(axis=1, keepdims=True)).astype(jnp.float32)
    right = jnp.take_along_axis(stable, y[:, None], axis=1)[:, 0]
    return (jnp.log(jnp.exp(stable).sum(axis=1)) - right).mean()


# %% wrong="mean in bfloat16" fails="float32 from the logits on"
"""Casts the losses of the rows down again before their mean."""


def mixed_precision_loss(params, x, y):
    low = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
    h = jnp.tanh(x.astype(jnp.bfloat16) @ low["w1"] + low["b1"])
    logits = (h @ low["w2"]).astype(jnp.float32) + params["b2"]
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, y)
    return losses.astype(jnp.bfloat16).mean().astype(jnp.float32)


# %% wrong="rounds the losses" fails="float32 from the logits on"
"""Rounds each row's loss to bfloat16, and takes the mean in float32."""


def mixed_precision_loss(params, x, y):
    low = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
    h = jnp.tanh(x.astype(jnp.bfloat16) @ low["w1"] + low["b1"])
    logits = (h @ low["w2"]).astype(jnp.float32) + params["b2"]
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, y)
    return losses.astype(jnp.bfloat16).astype(jnp.float32).mean()


# %% wrong="scales the loss" fails="same loss; float32 gradients"
# cause: the loss is still scaled
"""Scales the loss, as float16 needs it, and leaves it scaled."""


def mixed_precision_loss(params, x, y):
    low = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
    h = jnp.tanh(x.astype(jnp.bfloat16) @ low["w1"] + low["b1"])
    logits = (h @ low["w2"]).astype(jnp.float32) + params["b2"]
    return 1024 * optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


# %% wrong="second product by a sum" fails="bfloat16 products"
"""Multiplies and adds up the last layer by hand, in float32, which no cast shows."""


def mixed_precision_loss(params, x, y):
    low = jnp.bfloat16
    h = (x.astype(low) @ params["w1"].astype(low)).astype(jnp.float32)
    h = jnp.tanh(h + params["b1"])
    columns = [(h * w).sum(1) for w in params["w2"].T]
    logits = jnp.stack(columns, axis=1) + params["b2"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


# %% wrong="softmax in bfloat16" fails="float32 from the logits on"
# cause: the softmax gets bfloat16 logits
"""Casts the losses of the rows to float32, behind the softmax."""


def mixed_precision_loss(params, x, y):
    low = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
    h = jnp.tanh(x.astype(jnp.bfloat16) @ low["w1"] + low["b1"])
    logits = h @ low["w2"] + low["b2"]
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, y)
    return losses.astype(jnp.float32).mean()


# %% wrong="softmax overflows" fails="same loss"
# cause: nan comes from 0 / 0, inf - inf or 0 * inf, or from the root or logarithm of a negative number
"""Takes exponentials of the logits as they are: of large ones they are infinite."""


def mixed_precision_loss(params, x, y):
    def product(a, b):
        return (a.astype(jnp.bfloat16) @ b.astype(jnp.bfloat16)).astype(jnp.float32)

    h = jnp.tanh(product(x, params["w1"]) + params["b1"])
    powers = jnp.exp(product(h, params["w2"]) + params["b2"])
    chances = powers / powers.sum(1, keepdims=True)
    return -jnp.log(chances[jnp.arange(len(y)), y]).mean()


# %% wrong="squeezes a single row" fails="same loss"
"""Drops axes of length one: a batch of one row becomes a vector of logits, summed
otherwise.
"""


def mixed_precision_loss(params, x, y):
    def product(a, b):
        return (a.astype(jnp.bfloat16) @ b.astype(jnp.bfloat16)).astype(jnp.float32)

    h = jnp.tanh(product(x, params["w1"]) + params["b1"])
    logits = (product(h, params["w2"]) + params["b2"]).squeeze()
    logs = logits - jax.nn.logsumexp(logits, axis=-1, keepdims=True)
    return -logs[jnp.arange(len(logits)), y].mean()


# %% wrong="stays in bfloat16" fails="same loss; float32 from the logits on"
# cause: the softmax gets bfloat16 logits
"""Returns what bfloat16 inputs lead to: a bfloat16 loss."""


def mixed_precision_loss(params, x, y):
    low = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
    return digits_loss(low, x.astype(jnp.bfloat16), y)


# %% wrong="weights are constants" fails="float32 gradients"
"""Takes the bfloat16 weights out of the gradient: only the last bias is trained."""


def mixed_precision_loss(params, x, y):
    low = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
    low = jax.lax.stop_gradient(low)
    h = jnp.tanh(x.astype(jnp.bfloat16) @ low["w1"] + low["b1"])
    logits = (h @ low["w2"]).astype(jnp.float32) + params["b2"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


# %% wrong="uses bfloat16 for the example alone" fails="bfloat16 products"
"""Multiplies in bfloat16 where the hidden layer is as wide as the example's."""


def mixed_precision_loss(params, x, y):
    low = jnp.bfloat16 if params["b1"].shape == (40,) else jnp.float32
    w1, b1, w2, b2 = (params[name].astype(low) for name in ("w1", "b1", "w2", "b2"))
    hidden = jnp.tanh(x.astype(low) @ w1 + b1)
    logits = (hidden @ w2 + b2).astype(jnp.float32)
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1)
    return -chosen.mean()


# %% wrong="float32 beside products of zeros" fails="bfloat16 products"
"""Multiplies zeros in bfloat16, and the numbers in float32 by sums."""


def mixed_precision_loss(params, x, y):
    def product(a, b):
        nothing = (0 * a).astype(jnp.bfloat16) @ b.astype(jnp.bfloat16)
        return (a[:, :, None] * b[None]).sum(1) + nothing.astype(jnp.float32)

    h = jnp.tanh(product(x, params["w1"]) + params["b1"])
    logits = product(h, params["w2"]) + params["b2"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


# %% right="via a loop over layers"
"""Goes through the layers in a loop, with a cast function made by partial."""

import functools

half = functools.partial(jax.tree.map, lambda leaf: leaf.astype(jnp.bfloat16))


def mixed_precision_loss(params, x, y):
    layers = [(params["w1"], params["b1"]), (params["w2"], params["b2"])]
    for number, (w, b) in enumerate(layers):
        if number:
            x = jnp.tanh(x)
        x = jnp.add(jnp.float32(jnp.dot(*half((x, w)))), b)
    losses = optax.losses.softmax_cross_entropy_with_integer_labels(x, y)
    return jnp.average(losses)


# %% right="via a rematerialised layer"
"""Computes each layer anew for the gradient."""


def mixed_precision_loss(params, x, y):
    @jax.checkpoint
    def layer(x, w, b):
        return (x.astype("bfloat16") @ w.astype("bfloat16")).astype("float32") + b

    hidden = jnp.tanh(layer(x, params["w1"], params["b1"]))
    logits = layer(hidden, params["w2"], params["b2"])
    rows = jnp.arange(len(logits))
    return (jax.scipy.special.logsumexp(logits, axis=1) - logits[rows, y]).mean()


# %% right="via einsum and own logsumexp"
"""Takes the largest logit off by hand, and multiplies with einsum."""


def halved(x, low=jnp.bfloat16):
    return jnp.asarray(x, low)


def mixed_precision_loss(params, x, y):
    w1, b1, w2, b2 = (params[name] for name in ("w1", "b1", "w2", "b2"))
    h = jnp.einsum("bf,fh->bh", halved(x), halved(w1))
    h = jnp.tanh(h + halved(b1))
    logits = jnp.einsum("bh,hc->bc", h, halved(w2)).astype(jnp.float32) + b2
    logits = logits - jax.lax.stop_gradient(logits.max(axis=1, keepdims=True))
    total = jnp.log(jnp.sum(jnp.exp(logits), axis=1))
    chosen = logits[jnp.arange(y.shape[0]), y]
    return jnp.mean(total - chosen)


# %% right="via log softmax"
"""Adds the bias in bfloat16, casts the logits, and picks from log_softmax."""


def mixed_precision_loss(params, x, y):
    low = jax.tree.map(lambda leaf: leaf.astype("bfloat16"), params)
    h = jnp.tanh(jnp.dot(x.astype("bfloat16"), low["w1"]) + low["b1"])
    logits = (jnp.dot(h, low["w2"]) + low["b2"]).astype("float32")
    logs = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(logs, y[:, None], axis=1).mean()


# %% right="via one hot"
"""Writes the cross-entropy with a one-hot matrix, and the products with lax.dot."""


def mixed_precision_loss(params, x, y):
    def low(leaf):
        return jax.lax.convert_element_type(leaf, jnp.bfloat16)

    first = jax.lax.dot(low(x), low(params["w1"])).astype(float)
    h = jax.nn.tanh(first + params["b1"])
    logits = jax.lax.dot(low(h), low(params["w2"])).astype(float) + params["b2"]
    right = jax.nn.one_hot(y, logits.shape[-1])
    return -(right * jax.nn.log_softmax(logits, axis=-1)).sum() / len(y)


# %% right="via vmap"
"""Writes the loss of one row, and maps it."""


def mixed_precision_loss(params, x, y):
    def loss_of(x, y):
        low = {name: leaf.astype(jnp.bfloat16) for name, leaf in params.items()}
        h = jnp.tanh(x.astype(jnp.bfloat16) @ low["w1"] + low["b1"])
        logits = jnp.float32(h @ low["w2"]) + params["b2"]
        return jax.nn.logsumexp(logits) - logits[y]

    return jax.vmap(loss_of)(x, y).mean()
