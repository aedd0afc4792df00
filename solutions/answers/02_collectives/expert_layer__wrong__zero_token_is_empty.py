"""Takes a token of zeros for an empty slot: its row is 0.

Told: none
Fails: each token by its expert
"""


def expert_layer(params, x, expert, capacity, axis_name):
    size = lax.axis_size(axis_name)
    same = expert[:, None] == expert[None]
    place = expert, jnp.tril(same, -1).sum(axis=1)
    sent = jnp.zeros((size, capacity, x.shape[1]), x.dtype)
    sent = sent.at[place].set(x, mode="drop")
    arrived = lax.all_to_all(sent, axis_name, 0, 0)
    results = jnp.tanh(arrived @ params["w"] + params["b"])
    results = jnp.where((arrived == 0).all(-1, keepdims=True), 0, results)
    returned = lax.all_to_all(results, axis_name, 0, 0)
    return returned.at[place].get(mode="fill", fill_value=0)
