"""Takes `copy = env` for a copy: both names are the same dict.

Told: none
Fails: arguments stay; nothing is remembered
"""


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"num_devices must be at least 1, got {num_devices}")
    name = "--xla_force_host_platform_device_count"
    copy = env
    flags = [f for f in env.get("XLA_FLAGS", "").split() if not f.startswith(name)]
    copy["XLA_FLAGS"] = " ".join([*flags, f"{name}={num_devices}"])
    return copy
