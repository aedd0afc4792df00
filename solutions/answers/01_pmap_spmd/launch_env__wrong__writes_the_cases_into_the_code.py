"""Refuses the two counts of the check, and no other below 1.

Told: none
Fails: below one device
"""


def launch_env(num_devices, env):
    if num_devices in (0, -3):
        raise ValueError(f"num_devices must be at least 1, got {num_devices}")
    name = "--xla_force_host_platform_device_count"
    flags = [f for f in env.get("XLA_FLAGS", "").split() if not f.startswith(name)]
    return {**env, "XLA_FLAGS": " ".join([*flags, f"{name}={num_devices}"])}
