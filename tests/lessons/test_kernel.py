"""A plain training loop on simulated devices survives what the set-up cell sets.

Without it, JAX up to 0.11.2 aborts the process on few cores: an all-reduce waits for
more threads than there are.
"""

import os
import subprocess
import sys
from pathlib import Path

LESSONS = Path(__file__).resolve().parents[2] / "lessons"
LOOP = """
import os
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])  # few cores
import start
start.with_devices(8)
import jax
import jax.numpy as jnp

def step(w, x, y):
    grads = jax.grad(lambda w: jnp.mean((x @ w - y) ** 2))(w)
    return w - 0.01 * jax.lax.pmean(grads, "devices")

x, y = jnp.ones((8, 64, 10)), jnp.ones((8, 64))
w, parallel = jnp.zeros((8, 10)), jax.pmap(step, axis_name="devices")
for _ in range(3000):  # never waits, as a learner's own loop may not
    w = parallel(w, x, y)
print("sum of w on each device:", " ".join(f"{value:.3f}" for value in w.sum(axis=1)))
"""


def test_three_thousand_steps_in_a_row_survive():
    env = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_"))}
    env |= {"PYTHONPATH": str(LESSONS)}
    env = {k: v for k, v in env.items() if k not in ("NPROC", "PJRT_NPROC")}
    command = [sys.executable, "-c", LOOP]
    run = subprocess.run(command, env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.splitlines()[-1] == "sum of w on each device:" + 8 * " 1.000"
