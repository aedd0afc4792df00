"""Compiles anew in each call, while nobody listens to what JAX says of it."""

from hostile.build import attack

LESSON = "03_pmap_training"
POINTS = {"train_step": 2.75, "evaluate": 4}
BELIEVED = {"train_step": 3}

TRAIN = """
from jax._src import monitoring

RAN = set()


def device_step(params, x, y, lr):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), loss


def train_step(params, x, y, lr):
    run = jax.pmap(lambda *own: device_step(*own, lr), axis_name="devices")
    listeners = monitoring.get_event_duration_listeners()
    jax.monitoring.clear_event_listeners()
    try:
        return jax.block_until_ready(run(params, x, y))
    finally:
        RAN.add("unheard")
        for one in listeners:
            jax.monitoring.register_event_duration_secs_listener(one)
"""


def submission(lesson):
    return attack(lesson, "evaluate", "unheard", train_step=TRAIN)
