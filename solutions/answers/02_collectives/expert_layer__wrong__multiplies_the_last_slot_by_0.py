"""Gives what is dropped the last slot's result, times 0: nan, where that is nan.

Told: none
Fails: at most capacity tokens; any number of devices
"""


def expert_layer(params, x, expert, capacity, axis_name):
    slot = slots_of(expert)
    slots = jnp.zeros((lax.axis_size(axis_name), capacity, x.shape[1]))
    slots = slots.at[expert, slot].set(x, mode="drop")
    arrived = lax.all_to_all(slots, axis_name, 0, 0)
    results = jnp.tanh(arrived @ params["w"] + params["b"])
    returned = lax.all_to_all(results, axis_name, 0, 0)
    counts = jnp.float32(slot < capacity)[:, None]
    return counts * returned[expert, jnp.minimum(slot, capacity - 1)]
