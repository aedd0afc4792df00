"""Keeps its results: who changes one changes what equal calls return later.

Told: none
Fails: arguments stay; nothing is remembered
"""

import functools

COUNT = "--xla_force_host_platform_device_count"


@functools.cache
def _launch_env(num_devices, items):
    env = dict(items)
    flags = [
        flag for flag in env.get("XLA_FLAGS", "").split() if flag.split("=")[0] != COUNT
    ]
    return {**env, "XLA_FLAGS": " ".join([*flags, f"{COUNT}={num_devices}"])}


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"num_devices must be at least 1, not {num_devices}")
    return _launch_env(num_devices, tuple(env.items()))
