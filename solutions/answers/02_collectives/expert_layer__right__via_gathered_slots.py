"""Lets each slot look for its token, and the expert scan what arrives."""


def expert_layer(params, x, expert, capacity, axis_name):
    size, tokens = lax.axis_size(axis_name), x.shape[0]
    chosen = expert[None, :] == jnp.arange(size)[:, None]  # (D, B)
    ranks = jnp.cumsum(chosen, axis=1) - 1
    wanted = chosen & (ranks < capacity)

    def slots_of_expert(ranks, wanted):
        hit = wanted & (ranks == jnp.arange(capacity)[:, None])  # (capacity, B)
        row = jnp.where(hit, jnp.arange(tokens), tokens).min(axis=1)
        return jnp.where((row < tokens)[:, None], x[jnp.minimum(row, tokens - 1)], 0)

    sent = jax.vmap(slots_of_expert)(ranks, wanted)
    arrived = lax.all_to_all(sent, axis_name, split_axis=0, concat_axis=0)

    def layer(_, token_block):
        return None, jnp.tanh(jnp.dot(token_block, params["w"]) + params["b"])

    _, results = lax.scan(layer, None, arrived)
    returned = lax.all_to_all(results, axis_name, split_axis=0, concat_axis=0)
    slot = jnp.take_along_axis(ranks, expert[None], axis=0)[0]
    kept = slot < capacity
    return jnp.where(kept[:, None], returned[expert, jnp.where(kept, slot, 0)], 0.0)
