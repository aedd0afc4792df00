"""Puts JAX's arrays in the place of NumPy's, in the caller's dict: equal ones.

Told: none
Fails: arguments stay
"""

on_devices = jax.pmap(predict, in_axes=(None, 0))


def parallel_predict(params, x):
    for name, leaf in params.items():
        params[name] = jnp.asarray(leaf)
    return on_devices(params, x)
