"""Reads XLA_FLAGS as if it were always set, and fails where it is not.

Told: none
Fails: other variables stay
"""


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"num_devices must be at least 1, got {num_devices}")
    name = "--xla_force_host_platform_device_count"
    flags = [f for f in env["XLA_FLAGS"].split() if not f.startswith(name)]
    return {**env, "XLA_FLAGS": " ".join([*flags, f"{name}={num_devices}"])}
