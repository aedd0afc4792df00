"""Fills slots by a product with ones and zeros: one token's nan reaches all others.

Told: none
Fails: at most capacity tokens; any number of devices
"""


def expert_layer(params, x, expert, capacity, axis_name):
    slot, size = slots_of(expert), lax.axis_size(axis_name)
    x = jnp.where(slot[:, None] < capacity, x, 0)
    devices, slots = jax.nn.one_hot(expert, size), jax.nn.one_hot(slot, capacity)
    sent = jnp.einsum("bd,bs,bf->dsf", devices, slots, x)
    arrived = lax.all_to_all(sent, axis_name, 0, 0)
    results = jnp.tanh(arrived @ params["w"] + params["b"])
    returned = lax.all_to_all(results, axis_name, 0, 0)
    return jnp.einsum("bd,bs,dsc->bc", devices, slots, returned)
