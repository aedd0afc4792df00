"""Copies the variables that are not empty.

Told: none
Fails: other variables stay
"""


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"num_devices is {num_devices}, must be 1 or more")
    name = "--xla_force_host_platform_device_count"
    copy = {key: value for key, value in env.items() if value}
    flags = [f for f in copy.get("XLA_FLAGS", "").split() if not f.startswith(name)]
    copy["XLA_FLAGS"] = " ".join([*flags, f"{name}={num_devices}"])
    return copy
