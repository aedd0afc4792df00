# %% wrong="adds into the last slot" fails="each token by its expert"
"""Adds up what is too much in the last slot."""


def expert_layer(params, x, expert, capacity, axis_name):
    num_experts = lax.axis_size(axis_name)
    place = expert, jnp.minimum(slots_of(expert), capacity - 1)
    sent = jnp.zeros((num_experts, capacity, x.shape[1])).at[place].add(x)
    arrived = lax.all_to_all(sent, axis_name, 0, 0)
    results = jnp.tanh(arrived @ params["w"] + params["b"])
    returned = lax.all_to_all(results, axis_name, 0, 0)
    return jnp.where((slots_of(expert) < capacity)[:, None], returned[place], 0)


# %% wrong="capacity of the check" fails="each token by its expert"
"""Writes the check's capacity into the code."""


def expert_layer(params, x, expert, capacity, axis_name):
    num_experts = lax.axis_size(axis_name)
    capacity = 2
    place = expert, slots_of(expert)
    sent = jnp.zeros((num_experts, capacity, x.shape[1])).at[place].set(x, mode="drop")
    arrived = lax.all_to_all(sent, axis_name, 0, 0)
    results = jnp.tanh(arrived @ params["w"] + params["b"])
    returned = lax.all_to_all(results, axis_name, 0, 0)
    return returned.at[place].get(mode="fill", fill_value=0)


# %% wrong="counts in int8" fails="dropped tokens are 0"
"""Counts slots in 8 bits: late ones of many tokens take the first slots."""


def expert_layer(params, x, expert, capacity, axis_name):
    size = lax.axis_size(axis_name)
    chosen = jax.nn.one_hot(expert, size, dtype=jnp.int8)
    counts = jnp.cumsum(chosen, axis=0, dtype=jnp.int8) - chosen
    slot = jnp.take_along_axis(counts, expert[:, None], axis=1)[:, 0]
    slot = slot.astype(jnp.int32)
    place = expert, slot
    sent = jnp.zeros((size, capacity, x.shape[1]), x.dtype)
    sent = sent.at[place].set(x, mode="drop")
    results = jnp.tanh(
        lax.all_to_all(sent, axis_name, 0, 0) @ params["w"] + params["b"]
    )
    returned = lax.all_to_all(results, axis_name, 0, 0)
    return returned.at[place].get(mode="fill", fill_value=0)


# %% wrong="drops nothing" fails="two all_to_alls; dropped tokens are 0"
# cause: no token was dropped
"""Makes room for all tokens, whatever the capacity is."""


def expert_layer(params, x, expert, capacity, axis_name):
    num_experts = lax.axis_size(axis_name)
    place = expert, slots_of(expert)
    sent = jnp.zeros((num_experts, len(x), x.shape[1])).at[place].set(x, mode="drop")
    arrived = lax.all_to_all(sent, axis_name, 0, 0)
    results = jnp.tanh(arrived @ params["w"] + params["b"])
    returned = lax.all_to_all(results, axis_name, 0, 0)
    return returned.at[place].get(mode="fill", fill_value=0)


# %% wrong="eight devices" fails="any axis"
"""Writes the check's devices into the code."""


def expert_layer(params, x, expert, capacity, axis_name):
    num_experts = 8
    place = expert, slots_of(expert)
    sent = jnp.zeros((num_experts, capacity, x.shape[1])).at[place].set(x, mode="drop")
    arrived = lax.all_to_all(sent, axis_name, 0, 0)
    results = jnp.tanh(arrived @ params["w"] + params["b"])
    returned = lax.all_to_all(results, axis_name, 0, 0)
    return returned.at[place].get(mode="fill", fill_value=0)


# %% wrong="gathers the experts" fails="two all_to_alls"
# cause: all tokens, or all experts, were gathered
"""Fetches all experts to the tokens."""


def expert_layer(params, x, expert, capacity, axis_name):
    every = lax.all_gather(params, axis_name)
    own = jax.tree.map(lambda a: a[expert], every)
    results = jnp.tanh(jnp.einsum("bf,bfc->bc", x, own["w"]) + own["b"])
    return jnp.where((slots_of(expert) < capacity)[:, None], results, 0)


# %% wrong="gathers the tokens" fails="two all_to_alls"
# cause: all tokens, or all experts, were gathered
"""Gathers all tokens and choices; each expert computes what it was chosen for."""


def expert_layer(params, x, expert, capacity, axis_name):
    me = lax.axis_index(axis_name)
    tokens, chosen = lax.all_gather((x, expert), axis_name)
    slots = jax.vmap(slots_of)(chosen)
    mine = (chosen == me) & (slots < capacity)
    results = jnp.tanh(tokens @ params["w"] + params["b"])
    return lax.psum_scatter(jnp.where(mine[..., None], results, 0), axis_name)


# %% wrong="leaves the bias out" fails="each token by its expert"
"""Leaves the bias out."""


def expert_layer(params, x, expert, capacity, axis_name):
    num_experts = lax.axis_size(axis_name)
    place = expert, slots_of(expert)
    sent = jnp.zeros((num_experts, capacity, x.shape[1])).at[place].set(x, mode="drop")
    arrived = lax.all_to_all(sent, axis_name, 0, 0)
    results = jnp.tanh(arrived @ params["w"])
    returned = lax.all_to_all(results, axis_name, 0, 0)
    return returned.at[place].get(mode="fill", fill_value=0)


# %% wrong="negative slots" fails="each token by its expert; dropped tokens are 0"
"""Counts down from the capacity: below 0 an index begins at the end again."""


def expert_layer(params, x, expert, capacity, axis_name):
    num_experts = lax.axis_size(axis_name)
    place = expert, capacity - 1 - slots_of(expert)
    sent = jnp.zeros((num_experts, capacity, x.shape[1])).at[place].set(x, mode="drop")
    arrived = lax.all_to_all(sent, axis_name, 0, 0)
    results = jnp.tanh(arrived @ params["w"] + params["b"])
    returned = lax.all_to_all(results, axis_name, 0, 0)
    return returned.at[place].get(mode="fill", fill_value=0)


# %% wrong="one capacity for all devices" fails="each token by its expert"
"""Takes the capacity for an expert's slots of all devices."""


def expert_layer(params, x, expert, capacity, axis_name):
    num_experts = lax.axis_size(axis_name)
    capacity = -(-capacity // num_experts)
    place = expert, slots_of(expert)
    sent = jnp.zeros((num_experts, capacity, x.shape[1])).at[place].set(x, mode="drop")
    arrived = lax.all_to_all(sent, axis_name, 0, 0)
    results = jnp.tanh(arrived @ params["w"] + params["b"])
    returned = lax.all_to_all(results, axis_name, 0, 0)
    return returned.at[place].get(mode="fill", fill_value=0)


# %% wrong="overwrites the last slot" fails="each token by its expert"
"""Puts what is too much into the last slot, over what is there."""


def expert_layer(params, x, expert, capacity, axis_name):
    num_experts = lax.axis_size(axis_name)
    place = expert, jnp.minimum(slots_of(expert), capacity - 1)
    sent = jnp.zeros((num_experts, capacity, x.shape[1])).at[place].set(x)
    arrived = lax.all_to_all(sent, axis_name, 0, 0)
    results = jnp.tanh(arrived @ params["w"] + params["b"])
    returned = lax.all_to_all(results, axis_name, 0, 0)
    return jnp.where((slots_of(expert) < capacity)[:, None], returned[place], 0)


# %% wrong="own expert" fails="each token by its expert; two all_to_alls; dropped tokens are 0"
# cause: each device used its own expert
"""Computes all tokens where they are."""


def expert_layer(params, x, expert, capacity, axis_name):
    return jnp.tanh(x @ params["w"] + params["b"])


# %% wrong="result of zeros" fails="two all_to_alls; dropped tokens are 0"
# cause: a dropped token got what its expert makes of zeros
"""Takes a zero token's result for a dropped token, which holds the bias."""


def expert_layer(params, x, expert, capacity, axis_name):
    num_experts = lax.axis_size(axis_name)
    place = expert, jnp.minimum(slots_of(expert), capacity)
    sent = (
        jnp.zeros((num_experts, capacity + 1, x.shape[1]))
        .at[place]
        .set(jnp.where(slots_of(expert)[:, None] < capacity, x, 0))
    )
    arrived = lax.all_to_all(sent, axis_name, 0, 0)
    results = jnp.tanh(arrived @ params["w"] + params["b"])
    returned = lax.all_to_all(results, axis_name, 0, 0)
    return returned.at[place].get()


# %% wrong="results in order of arrival" fails="each token by its expert"
"""Leaves the results in the order of experts and slots."""


def expert_layer(params, x, expert, capacity, axis_name):
    num_experts = lax.axis_size(axis_name)
    slots = slots_of(expert)
    sent = jnp.zeros((num_experts, capacity, x.shape[1]))
    sent = sent.at[expert, slots].set(x, mode="drop")
    arrived = lax.all_to_all(sent, axis_name, 0, 0)
    results = jnp.tanh(arrived @ params["w"] + params["b"])
    returned = lax.all_to_all(results, axis_name, 0, 0)
    order = jnp.argsort(expert)
    kept = (slots < capacity)[:, None]
    return jnp.where(kept, returned.at[expert, slots].get(mode="clip")[order], 0)


# %% wrong="results stay" fails="each token by its expert; two all_to_alls"
# cause: the results did not travel back: that takes a second all_to_all
"""Sends no results back."""


def expert_layer(params, x, expert, capacity, axis_name):
    num_experts = lax.axis_size(axis_name)
    place = expert, slots_of(expert)
    sent = jnp.zeros((num_experts, capacity, x.shape[1])).at[place].set(x, mode="drop")
    arrived = lax.all_to_all(sent, axis_name, 0, 0)
    results = jnp.tanh(arrived @ params["w"] + params["b"])
    returned = results
    return returned.at[place].get(mode="fill", fill_value=0)


# %% wrong="sends every token to every expert" fails="two all_to_alls"
# cause: every token was sent to every expert
"""Sends all tokens everywhere and keeps one expert's answer."""


def expert_layer(params, x, expert, capacity, axis_name):
    num_experts = lax.axis_size(axis_name)
    sent = jnp.broadcast_to(x, (num_experts, *x.shape))
    arrived = lax.all_to_all(sent, axis_name, 0, 0)
    results = jnp.tanh(arrived @ params["w"] + params["b"])
    returned = lax.all_to_all(results, axis_name, 0, 0)
    kept = (slots_of(expert) < capacity)[:, None]
    return jnp.where(kept, returned[expert, jnp.arange(len(x))], 0)


# %% wrong="sends the choices too" fails="two all_to_alls"
# cause: the tokens' choices were sent, too
"""Sends the choices along, which the slots say already."""


def expert_layer(params, x, expert, capacity, axis_name):
    num_experts = lax.axis_size(axis_name)
    place = expert, slots_of(expert)
    sent = jnp.zeros((num_experts, capacity, x.shape[1])).at[place].set(x, mode="drop")
    arrived = lax.all_to_all(sent, axis_name, 0, 0)
    chosen = jnp.full((num_experts, capacity), -1).at[place].set(expert, mode="drop")
    chosen = lax.all_to_all(chosen, axis_name, 0, 0)
    arrived = jnp.where((chosen < 0)[..., None], 0, arrived)
    results = jnp.tanh(arrived @ params["w"] + params["b"])
    returned = lax.all_to_all(results, axis_name, 0, 0)
    return returned.at[place].get(mode="fill", fill_value=0)


# %% wrong="slots over all" fails="each token by its expert"
# cause: slots were counted over all experts together
"""Counts slots over the experts together."""


def expert_layer(params, x, expert, capacity, axis_name):
    num_experts = lax.axis_size(axis_name)
    place = expert, jnp.arange(len(x))
    sent = jnp.zeros((num_experts, capacity, x.shape[1])).at[place].set(x, mode="drop")
    arrived = lax.all_to_all(sent, axis_name, 0, 0)
    results = jnp.tanh(arrived @ params["w"] + params["b"])
    returned = lax.all_to_all(results, axis_name, 0, 0)
    return returned.at[place].get(mode="fill", fill_value=0)


# %% wrong="takes another result" fails="dropped tokens are 0"
# cause: a dropped token got another one's result
"""Reads beyond the slots: JAX takes the last one."""


def expert_layer(params, x, expert, capacity, axis_name):
    num_experts = lax.axis_size(axis_name)
    place = expert, slots_of(expert)
    sent = jnp.zeros((num_experts, capacity, x.shape[1])).at[place].set(x, mode="drop")
    arrived = lax.all_to_all(sent, axis_name, 0, 0)
    results = jnp.tanh(arrived @ params["w"] + params["b"])
    returned = lax.all_to_all(results, axis_name, 0, 0)
    return returned[place]


# %% wrong="the last rows win" fails="each token by its expert; dropped tokens are 0"
# cause: the last rows took the slots, not the first
"""Lets later rows push earlier ones out."""


def expert_layer(params, x, expert, capacity, axis_name):
    num_experts = lax.axis_size(axis_name)
    place = expert, slots_of(expert[::-1])[::-1]
    sent = jnp.zeros((num_experts, capacity, x.shape[1])).at[place].set(x, mode="drop")
    arrived = lax.all_to_all(sent, axis_name, 0, 0)
    results = jnp.tanh(arrived @ params["w"] + params["b"])
    returned = lax.all_to_all(results, axis_name, 0, 0)
    return returned.at[place].get(mode="fill", fill_value=0)


# %% wrong="zero token is empty" fails="each token by its expert"
"""Takes a token of zeros for an empty slot: its row is 0."""


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


# %% right="via a dispatch matrix"
"""Dispatches by a matrix of zeros and ones."""


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


# %% right="via a spare slot"
"""Has a slot more for what is too much, and cuts it off before it sends."""


def expert_layer(params, x, expert, capacity, axis_name):
    num_experts = lax.axis_size(axis_name)
    slot = jnp.minimum(slots_of(expert), capacity)
    sent = jnp.zeros((num_experts, capacity + 1, x.shape[1])).at[expert, slot].set(x)
    arrived = lax.all_to_all(sent[:, :capacity], axis_name, 0, 0)
    results = jnp.tanh(arrived @ params["w"] + params["b"])
    returned = lax.all_to_all(results, axis_name, 0, 0)
    padded = jnp.pad(returned, ((0, 0), (0, 1), (0, 0)))
    return padded[expert, slot]


# %% right="via columns"
"""Keeps the slots first, and cuts along the second axis."""


def expert_layer(params, x, expert, capacity, axis_name):
    place = slots_of(expert), expert
    shape = capacity, lax.axis_size(axis_name), x.shape[1]
    sent = jnp.zeros(shape).at[place].set(x, mode="drop")
    arrived = lax.all_to_all(sent, axis_name, split_axis=1, concat_axis=1)
    results = jnp.tanh(jnp.einsum("sdf,fc->sdc", arrived, params["w"]) + params["b"])
    returned = lax.all_to_all(results, axis_name, split_axis=1, concat_axis=1)
    return returned.at[place].get(mode="fill", fill_value=0)


# %% right="via counts"
"""Gives what is dropped the last slot's result, times 0."""


def expert_layer(params, x, expert, capacity, axis_name):
    slot = slots_of(expert)
    slots = jnp.zeros((lax.axis_size(axis_name), capacity, x.shape[1]))
    slots = slots.at[expert, slot].set(x, mode="drop")
    arrived = lax.all_to_all(slots, axis_name, 0, 0)
    results = jnp.tanh(arrived @ params["w"] + params["b"])
    returned = lax.all_to_all(results, axis_name, 0, 0)
    counts = jnp.float32(slot < capacity)[:, None]
    return counts * returned[expert, jnp.minimum(slot, capacity - 1)]


# %% right="via flat rows"
"""Numbers all slots in one row, and exchanges by tiles."""


def expert_layer(params, x, expert, capacity, axis_name):
    num_slots = lax.axis_size(axis_name) * capacity
    slot = slots_of(expert)
    place = jnp.where(slot < capacity, expert * capacity + slot, num_slots)
    sent = jnp.zeros((num_slots, x.shape[1]), x.dtype).at[place].set(x, mode="drop")
    arrived = lax.all_to_all(sent, axis_name, 0, 0, tiled=True)
    results = jnp.tanh(jnp.dot(arrived, params["w"]) + params["b"])
    returned = lax.all_to_all(results, axis_name, 0, 0, tiled=True)
    return jnp.take(returned, place, axis=0, mode="fill", fill_value=0)


# %% right="via gathered slots"
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


# %% right="via scan"
"""Hands out the slots in a loop over the rows."""


def expert_layer(params, x, expert, capacity, axis_name):
    num_experts = lax.axis_size(axis_name)

    def take(taken, one):
        return taken.at[one].add(1), taken[one]

    taken = jnp.zeros(num_experts, expert.dtype) + 0 * expert[0]
    _, slot = lax.scan(take, taken, expert)
    sent = jnp.zeros((num_experts, capacity, x.shape[1])).at[expert, slot].set(x)
    arrived = lax.all_to_all(sent, axis_name, 0, 0)
    results = jnp.tanh(arrived @ params["w"] + params["b"])
    returned = lax.all_to_all(results, axis_name, 0, 0)
    found = returned[expert, jnp.minimum(slot, capacity - 1)]
    return jnp.where((slot < capacity)[:, None], found, 0)


# %% right="via sorting"
"""Sorts the tokens by their experts, and counts from where each one's begin."""


def expert_layer(params, x, expert, capacity, axis_name):
    num_experts = lax.axis_size(axis_name)
    order = jnp.argsort(expert, stable=True)
    first = jnp.searchsorted(expert[order], jnp.arange(num_experts))
    rows = first[:, None] + jnp.arange(capacity)
    is_filled = rows < jnp.append(first[1:], len(x))[:, None]
    rows = order[jnp.minimum(rows, len(x) - 1)]
    sent = jnp.where(is_filled[..., None], x[rows], 0)
    arrived = lax.all_to_all(sent, axis_name, 0, 0)
    results = jnp.tanh(arrived @ params["w"] + params["b"])
    returned = lax.all_to_all(results, axis_name, 0, 0)
    kept = jnp.where(is_filled[..., None], returned, 0)
    return jnp.zeros((len(x), kept.shape[-1])).at[rows].add(kept)


# %% right="via two one hots"
"""Fills and reads slots by products with ones and zeros, as GShard does."""


def expert_layer(params, x, expert, capacity, axis_name):
    slot, size = slots_of(expert), lax.axis_size(axis_name)
    x = jnp.where(slot[:, None] < capacity, x, 0)
    devices, slots = jax.nn.one_hot(expert, size), jax.nn.one_hot(slot, capacity)
    sent = jnp.einsum("bd,bs,bf->dsf", devices, slots, x)
    arrived = lax.all_to_all(sent, axis_name, 0, 0)
    results = jnp.tanh(arrived @ params["w"] + params["b"])
    returned = lax.all_to_all(results, axis_name, 0, 0)
    return jnp.einsum("bd,bs,dsc->bc", devices, slots, returned)


# %% right="via vmap"
"""Maps the expert over devices and slots, and takes each expert's tokens by `nonzero`."""


def expert_layer(params, x, expert, capacity, axis_name):
    def rows_of(number):  # len(x) where no token is left
        return jnp.nonzero(expert == number, size=capacity, fill_value=len(x))[0]

    rows = jax.vmap(rows_of)(jnp.arange(lax.axis_size(axis_name)))
    sent = x.at[rows].get(mode="fill", fill_value=0)
    of_one = jax.vmap(jax.vmap(lambda token: token @ params["w"] + params["b"]))
    arrived = lax.all_to_all(sent, axis_name, 0, 0)
    returned = lax.all_to_all(jnp.tanh(of_one(arrived)), axis_name, 0, 0)
    result = jnp.zeros((len(x), returned.shape[-1]), x.dtype)
    return result.at[rows].set(returned, mode="drop")


# %% wrong="counts in bfloat16" fails="dropped tokens are 0"
"""Counts slots by a cumulative sum of a one-hot in sixteen bits."""


def expert_layer(params, x, expert, capacity, axis_name):
    num_experts = lax.axis_size(axis_name)
    chosen = jax.nn.one_hot(expert, num_experts, dtype=jnp.bfloat16)
    slot = ((jnp.cumsum(chosen, axis=0) - chosen) * chosen).sum(1).astype(jnp.int32)
    sent = jnp.zeros((num_experts, capacity, x.shape[1]))
    sent = sent.at[expert, slot].set(x, mode="drop")
    arrived = lax.all_to_all(sent, axis_name, 0, 0)
    results = jnp.tanh(arrived @ params["w"] + params["b"])
    returned = lax.all_to_all(results, axis_name, 0, 0)
    return returned.at[expert, slot].get(mode="fill", fill_value=0)


# %% wrong="bias at home" fails="each token by its expert"
# cause: the bias was added after the way back: it is not the expert's
"""Adds its own expert's bias to what has come back."""


def expert_layer(params, x, expert, capacity, axis_name):
    num_experts = lax.axis_size(axis_name)
    place = expert, slots_of(expert)
    sent = jnp.zeros((num_experts, capacity, x.shape[1])).at[place].set(x, mode="drop")
    arrived = lax.all_to_all(sent, axis_name, 0, 0)
    returned = lax.all_to_all(arrived @ params["w"], axis_name, 0, 0)
    returned = returned.at[place].get(mode="fill", fill_value=0)
    kept = (slots_of(expert) < capacity)[:, None]
    return jnp.where(kept, jnp.tanh(returned + params["b"]), 0)


# %% wrong="own expert for dropped tokens" fails="dropped tokens are 0"
# cause: a dropped token got the result of its own device's expert
"""Lets the expert at hand compute the tokens that found no slot."""


def expert_layer(params, x, expert, capacity, axis_name):
    num_experts, slot = lax.axis_size(axis_name), slots_of(expert)
    place = expert, slot
    sent = jnp.zeros((num_experts, capacity, x.shape[1])).at[place].set(x, mode="drop")
    arrived = lax.all_to_all(sent, axis_name, 0, 0)
    results = jnp.tanh(arrived @ params["w"] + params["b"])
    returned = lax.all_to_all(results, axis_name, 0, 0)
    own = jnp.tanh(x @ params["w"] + params["b"])
    return jnp.where((slot < capacity)[:, None], returned.at[place].get(), own)
