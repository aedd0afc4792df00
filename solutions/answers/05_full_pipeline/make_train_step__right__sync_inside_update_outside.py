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
