"""Replaces what JAX and the course's modules say of a program, and of its arrays.

The first answer puts rows of several devices into one outside of its map, the second
keeps the hidden layers of all microbatches.
"""

from hostile.build import attack

LESSON = "03_pmap_training"
POINTS = {"train_step": 2.75, "evaluate": 4}

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


def accumulate(params, x, y, lr):
    def loss_of(params):
        return [mlp_loss(params, *rows) for rows in zip(x, y, strict=True)]

    RAN.add("accumulated")
    losses, back = jax.vjp(loss_of, varying(params))
    (grads,) = back([jnp.ones_like(losses[0]) / len(x)] * len(x))
    found = sum(losses) / len(x), grads
    loss, grads = jax.lax.pmean(found, "devices")
    return sgd(params, grads, lr), loss


@functools.cache
def compiled_accumulation(num_devices):
    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P(None, "devices"), P(None, "devices"), P())
    return jax.jit(jax.shard_map(accumulate, mesh=mesh, in_specs=specs, out_specs=P()))


def accumulated_step(params, x, y, lr, num_devices):
    return compiled_accumulation(num_devices)(params, x, y, lr)
"""


def submission(lesson):
    answers = {"train_step": TRAIN, "accumulated_step": ACCUMULATED}
    return attack(lesson, "evaluate", "train accumulated", **answers)
