"""Takes exponentials of the logits as they are: of large ones they are infinite.

Told: none
Fails: digits_loss
"""


def mixed_precision_loss(params, x, y):
    def product(a, b):
        return (a.astype(jnp.bfloat16) @ b.astype(jnp.bfloat16)).astype(jnp.float32)

    h = jnp.tanh(product(x, params["w1"]) + params["b1"])
    powers = jnp.exp(product(h, params["w2"]) + params["b2"])
    chances = powers / powers.sum(1, keepdims=True)
    return -jnp.log(chances[jnp.arange(len(y)), y]).mean()
