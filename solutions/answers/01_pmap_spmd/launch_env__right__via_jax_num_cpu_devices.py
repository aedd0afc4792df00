"""Uses JAX's own variable for the count, and clears the XLA flag."""


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"num_devices = {num_devices} is below 1")
    flags = env.get("XLA_FLAGS", "").split()
    old = "--xla_force_host_platform_device_count="
    flags = [flag for flag in flags if flag[: len(old)] != old]
    count = {"JAX_NUM_CPU_DEVICES": str(num_devices)}
    return {**env, "XLA_FLAGS": " ".join(flags), **count}
