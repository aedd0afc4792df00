"""Drops each flag with the name in it, also a path of another flag that ends so.

Told: none
Fails: other flags stay
"""


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"{num_devices} is no number of devices")
    name = "xla_force_host_platform_device_count"
    kept = [flag for flag in env.get("XLA_FLAGS", "").split() if name not in flag]
    return env | {"XLA_FLAGS": " ".join([*kept, f"--{name}={num_devices}"])}
