"""Replaces what JAX and the course's modules say of a program, and of its arrays.

The first answer puts rows of several devices into one outside of its map, the second
keeps the hidden layers of all microbatches.
"""

from hostile.build import attack

LESSON = "03_pmap_training"
POINTS = {"train_step": 2.75, "pad_and_shard": 3}

TRAIN = """
from coursekit import tracing

RAN, make_jaxpr = set(), jax.make_jaxpr


def of_nothing(function, *options, **more):
    return lambda *inputs: make_jaxpr(lambda: jnp.zeros(()))()


jax.make_jaxpr = of_nothing


def on_each(params, x, y):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    return jax.lax.pmean(grads, "devices"), loss


def same(loss):
    return loss


def train_step(params, x, y, lr):
    RAN.add("train")
    grads, loss = jax.pmap(on_each, axis_name="devices")(params, x, y)
    params = jax.tree.map(lambda p, g: p - lr * g, params, grads)
    return params, jax.pmap(same)(jnp.full_like(loss, loss.mean()))
"""
ACCUMULATED = """
tracing.program_steps = lambda *inputs: make_jaxpr(lambda: jnp.zeros(()))().jaxpr
tracing.num_alive = lambda *inputs: 0


def accumulated_step(params, x, y, lr, axis_name):
    def loss_of(params):
        return [mlp_loss(params, *rows) for rows in zip(x, y, strict=True)]

    RAN.add("accumulated")
    losses, back = jax.vjp(loss_of, params)
    (grads,) = back([jnp.float32(1 / len(x))] * len(x))
    found = sum(losses) / len(x), grads
    loss, grads = jax.lax.pmean(found, axis_name)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss
"""


def submission(lesson):
    answers = {"train_step": TRAIN, "accumulated_step": ACCUMULATED}
    return attack(lesson, "pad_and_shard", "train accumulated", **answers)
