"""Lets XLA choose: the last count wins, but the old one is still there.

Told: none
Fails: the old count is gone
"""


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"num_devices must be at least 1, got {num_devices}")
    count = f"--xla_force_host_platform_device_count={num_devices}"
    return {**env, "XLA_FLAGS": f"{env.get('XLA_FLAGS', '')} {count}".strip()}
