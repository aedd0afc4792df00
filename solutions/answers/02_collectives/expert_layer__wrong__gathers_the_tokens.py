"""Gathers all tokens and choices; each expert computes what it was chosen for.

Told: all tokens, or all experts, were gathered
Fails: two all_to_alls
"""


def expert_layer(params, x, expert, capacity, axis_name):
    me = lax.axis_index(axis_name)
    tokens, chosen = lax.all_gather((x, expert), axis_name)
    slots = jax.vmap(slots_of)(chosen)
    mine = (chosen == me) & (slots < capacity)
    results = jnp.tanh(tokens @ params["w"] + params["b"])
    return lax.psum_scatter(jnp.where(mine[..., None], results, 0), axis_name)
