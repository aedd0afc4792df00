"""Keeps each flag once: where one comes twice, another one wins.

Told: none
Fails: other flags stay
"""


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"at least one device, not {num_devices}")
    name = "--xla_force_host_platform_device_count"
    flags = dict.fromkeys(env.get("XLA_FLAGS", "").split())  # no flag twice
    flags = [flag for flag in flags if not flag.startswith(name)]
    return {**env, "XLA_FLAGS": " ".join([*flags, f"{name}={num_devices}"])}
