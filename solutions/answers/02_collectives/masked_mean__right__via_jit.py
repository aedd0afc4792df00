"""Compiles one function for each axis name."""

from functools import partial


@partial(jax.jit, static_argnames=("axis_name",))
def masked_mean(x, mask, axis_name):
    sums = {"total": jnp.sum(x, where=mask, initial=0), "count": mask.sum()}
    sums = lax.psum(sums, axis_name)
    count = sums["count"].astype(jnp.float32)
    return sums["total"] / jnp.clip(count, min=1.0)
