"""A plain training loop on simulated devices survives what the set-up cell sets.

Without NPROC and PJRT_NPROC the jitted loop below aborts its process on two cores, on
JAX 0.7.2 and 0.10.2 alike: an all-reduce waits for more threads than there are.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

LESSONS = Path(__file__).resolve().parents[2] / "lessons"
MODEL = """
import os
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])  # few cores
from coursekit import setup
setup.with_devices(8)
import jax
import jax.numpy as jnp

def loss(params, x, y):
    for w in params[:-1]:
        x = jnp.tanh(x @ w)
    return jnp.mean((x @ params[-1] - y) ** 2)

def step(params, x, y, average=lambda grads: grads):
    grads = average(jax.grad(loss)(params, x, y))
    return jax.tree.map(lambda p, g: p - 0.01 * g, params, grads)

sizes = [(16, 32), (32, 32), (32, 10)]
"""
JITTED = """
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(jax.devices(), ("devices",))
params = [jnp.full(size, 0.01) for size in sizes]
params = jax.device_put(params, NamedSharding(mesh, P()))
x, y = jnp.ones((64, 16)), jnp.ones((64, 10))
x, y = jax.device_put((x, y), NamedSharding(mesh, P("devices")))
parallel = jax.jit(step)
"""
PMAPPED = """
params = [jnp.full((8, *size), 0.01) for size in sizes]
x, y = jnp.ones((8, 8, 16)), jnp.ones((8, 8, 10))
average = lambda grads: jax.lax.pmean(grads, "devices")
parallel = jax.pmap(lambda *inputs: step(*inputs, average), axis_name="devices")
"""
LOOP = """
for _ in range(3000):  # never waits, as a learner's own loop may not
    params = parallel(params, x, y)
print("finite:", bool(jnp.isfinite(params[0]).all()))
"""


@pytest.mark.parametrize("program", [JITTED, PMAPPED], ids=["jit", "pmap"])
def test_three_thousand_steps_in_a_row_survive(program):
    ours = ("JAX_", "XLA_", "NPROC", "PJRT_NPROC")
    env = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    command = [sys.executable, "-c", MODEL + program + LOOP]
    env |= {"PYTHONPATH": str(LESSONS)}
    run = subprocess.run(command, env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.splitlines()[-1] == "finite: True"
