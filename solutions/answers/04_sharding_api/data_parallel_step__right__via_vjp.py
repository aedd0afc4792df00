"""Pulls the loss back by vjp, and goes through flat leaves."""


@functools.partial(jax.jit, static_argnames=())
def data_parallel_step(params, x, y, lr):
    loss, pull = jax.vjp(lambda p: mlp_loss(p, x, y), params)
    (grads,) = pull(jnp.ones_like(loss))
    leaves, tree = jax.tree_util.tree_flatten(params)
    new = [p - lr * g for p, g in zip(leaves, jax.tree.leaves(grads), strict=True)]
    return jax.tree_util.tree_unflatten(tree, new), loss
