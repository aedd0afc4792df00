"""Removes one earlier count: where there are two, the second stays.

Told: none
Fails: the old count is gone
"""


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"num_devices must be at least 1, got {num_devices}")
    name = "--xla_force_host_platform_device_count"
    flags = env.get("XLA_FLAGS", "").split()
    for flag in flags:
        if flag.startswith(name):
            flags.remove(flag)
            break
    return {**env, "XLA_FLAGS": " ".join([*flags, f"{name}={num_devices}"])}
