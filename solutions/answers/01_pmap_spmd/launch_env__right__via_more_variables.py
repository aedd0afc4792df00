"""Also says that the process shall use the CPU."""


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"num_devices={num_devices}, but there must be 1 or more")
    old, new = env.get("XLA_FLAGS", "").split(), {**env, "JAX_PLATFORMS": "cpu"}
    flags = [
        f for f in old if f.split("=")[0][2:] != "xla_force_host_platform_device_count"
    ]
    flags.append(f"--xla_force_host_platform_device_count={num_devices}")
    new.update(XLA_FLAGS=" ".join(flags))
    return new
