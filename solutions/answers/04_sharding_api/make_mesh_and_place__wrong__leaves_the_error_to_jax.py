"""Trusts that JAX's error names the number of devices that are asked for.

Told: none
Fails: both numbers are named
"""


def make_mesh_and_place(x, shape, axis_names, spec):
    return jax.device_put(x, NamedSharding(make_mesh(shape, axis_names), P(*spec)))
