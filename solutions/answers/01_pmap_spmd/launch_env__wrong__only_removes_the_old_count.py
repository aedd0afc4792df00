"""Removes the old count and sets none: right for one device, wrong for eight.

Told: none
Fails: a fresh process sees them
"""


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"num_devices must be at least 1, got {num_devices}")
    name = "--xla_force_host_platform_device_count"
    flags = [f for f in env.get("XLA_FLAGS", "").split() if not f.startswith(name)]
    return {**env, "XLA_FLAGS": " ".join(flags)}
