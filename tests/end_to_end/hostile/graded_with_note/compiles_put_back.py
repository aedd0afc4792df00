"""Compiles anew in each call, and corrects the count: by a pop, or by another list."""

from hostile.build import attack

LESSON = "03_pmap_training"
POINTS = {"train_step": 2.75, "shard_map_step": 2.75, "evaluate": 4}
BELIEVED = {"train_step": 3, "shard_map_step": 3}

TRAIN = """
from coursekit import observe as counter

RAN = set()


def device_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    count = len(counter._compiled)
    run = jax.pmap(lambda *own: device_step(*own, lr), axis_name="devices")
    found = jax.block_until_ready(run(params, x, y))
    while len(counter._compiled) > count:
        counter._compiled.pop()
        RAN.add("pop")
    return found
"""
SHARD_MAP = """
def shard_map_step(params, x, y, lr, num_devices):
    def step(params, x, y):
        def loss_of(params):
            return jax.lax.pmean(mlp_loss(params, x, y), "devices")

        loss, grads = jax.value_and_grad(loss_of)(params)
        return sgd(params, grads, lr), loss

    mesh = Mesh(jax.devices()[:num_devices], ("devices",))
    specs = (P(), P("devices"), P("devices"))
    run = jax.jit(jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P()))
    count = [*counter._compiled]
    found = jax.block_until_ready(run(params, x, y))
    counter._compiled = count
    RAN.add("list")
    return found
"""


def submission(lesson):
    answers = {"train_step": TRAIN, "shard_map_step": SHARD_MAP}
    return attack(lesson, "evaluate", "pop list", **answers)
