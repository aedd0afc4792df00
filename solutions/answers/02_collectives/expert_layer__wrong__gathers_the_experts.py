"""Fetches all experts to the tokens.

Told: all tokens, or all experts, were gathered
Fails: two all_to_alls
"""


def expert_layer(params, x, expert, capacity, axis_name):
    every = lax.all_gather(params, axis_name)
    own = jax.tree.map(lambda a: a[expert], every)
    results = jnp.tanh(jnp.einsum("bf,bfc->bc", x, own["w"]) + own["b"])
    return jnp.where((slots_of(expert) < capacity)[:, None], results, 0)
