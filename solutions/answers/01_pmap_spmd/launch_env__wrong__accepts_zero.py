"""Does not test its input: XLA would be asked for 0 devices.

Told: none
Fails: below one device
"""


def launch_env(num_devices, env):
    name = "--xla_force_host_platform_device_count"
    flags = [f for f in env.get("XLA_FLAGS", "").split() if not f.startswith(name)]
    return {**env, "XLA_FLAGS": " ".join([*flags, f"{name}={num_devices}"])}
