"""Dispatches by a matrix of zeros and ones: a dropped nan times 0 is nan.

Told: none
Fails: at most capacity tokens; any number of devices
"""


def expert_layer(params, x, expert, capacity, axis_name):
    num_experts = lax.axis_size(axis_name)
    chosen = jax.nn.one_hot(expert, num_experts)
    slot = ((jnp.cumsum(chosen, axis=0) - 1) * chosen).sum(1).astype(int)
    dispatch = chosen[:, :, None] * jax.nn.one_hot(slot, capacity)[:, None]
    sent = jnp.einsum("bec,bf->ecf", dispatch, x)
    arrived = lax.all_to_all(sent, axis_name, split_axis=0, concat_axis=0)
    results = jnp.tanh(arrived @ params["w"] + params["b"])
    returned = lax.all_to_all(results, axis_name, split_axis=0, concat_axis=0)
    return jnp.einsum("bec,ecg->bg", dispatch, returned)
