"""Sends all tokens everywhere and keeps one expert's answer.

Told: every token was sent to every expert
Fails: two all_to_alls
"""


def expert_layer(params, x, expert, capacity, axis_name):
    num_experts = lax.axis_size(axis_name)
    sent = jnp.broadcast_to(x, (num_experts, *x.shape))
    arrived = lax.all_to_all(sent, axis_name, 0, 0)
    results = jnp.tanh(arrived @ params["w"] + params["b"])
    returned = lax.all_to_all(results, axis_name, 0, 0)
    kept = (slots_of(expert) < capacity)[:, None]
    return jnp.where(kept, returned[expert, jnp.arange(len(x))], 0)
