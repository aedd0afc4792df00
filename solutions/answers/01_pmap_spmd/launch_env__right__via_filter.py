"""Puts the new count first, where no other is left, and filters by a lambda."""

COUNT = "--xla_force_host_platform_device_count"


def launch_env(num_devices, env):
    if not num_devices >= 1:
        raise ValueError(num_devices)
    others = filter(lambda flag: COUNT not in flag, env.get("XLA_FLAGS", "").split())
    return dict(env, XLA_FLAGS=" ".join([f"{COUNT}={num_devices}", *others]))
