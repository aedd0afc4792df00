"""Returns the caller's own dict where its count is right already.

Told: none
Fails: arguments stay
"""


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"num_devices is {num_devices}, below 1")
    name = "--xla_force_host_platform_device_count="
    flags = env.get("XLA_FLAGS", "").split()
    counts = [flag for flag in flags if flag.startswith(name)]
    wanted = f"{name}{num_devices}"
    if counts == [wanted]:
        return env  # as it should be
    others = [flag for flag in flags if not flag.startswith(name)]
    return env | {"XLA_FLAGS": " ".join([*others, wanted])}
