"""Leaves the earlier count in place; XLA obeys the flag that comes last.

Told: none
Fails: a fresh process sees them; the old count is gone
"""


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"num_devices must be at least 1, got {num_devices}")
    count = f"--xla_force_host_platform_device_count={num_devices}"
    return {**env, "XLA_FLAGS": f"{count} {env.get('XLA_FLAGS', '')}"}
