"""Computes all tokens where they are.

Told: each device used its own expert
Fails: each token by its expert; two all_to_alls; at most capacity tokens
"""


def expert_layer(params, x, expert, capacity, axis_name):
    return jnp.tanh(x @ params["w"] + params["b"])
