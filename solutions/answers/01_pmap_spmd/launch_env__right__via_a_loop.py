"""Builds the list of flags in a loop, into a dict made by copy()."""


def launch_env(num_devices, env):
    if num_devices <= 0:
        raise ValueError("at least 1 device, not " + str(num_devices))
    new = env.copy()
    kept = []
    for flag in new.pop("XLA_FLAGS", "").split(" "):
        key, _, _ = flag.partition("=")
        if flag and key != "--xla_force_host_platform_device_count":
            kept.append(flag)
    kept.append("--xla_force_host_platform_device_count=" + str(num_devices))
    new["XLA_FLAGS"] = " ".join(kept)
    return new
