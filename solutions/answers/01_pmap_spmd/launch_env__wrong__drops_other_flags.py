"""Believes that XLA_FLAGS holds one flag only, and overwrites the others.

Told: none
Fails: other flags stay
"""


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"num_devices must be at least 1, got {num_devices}")
    count = f"--xla_force_host_platform_device_count={num_devices}"
    return {**env, "XLA_FLAGS": count}
