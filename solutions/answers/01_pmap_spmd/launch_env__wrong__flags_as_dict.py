"""Takes every flag for name=value; a flag without "=" (--xla_dump_hlo_as_text) raises,
so "other flags stay" breaks.

Told: none
Fails: other flags stay; the old count is gone
"""


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"num_devices = {num_devices}")
    flags = dict(flag.split("=", 1) for flag in env.get("XLA_FLAGS", "").split())
    flags.pop("--xla_force_host_platform_device_count", None)
    flags["--xla_force_host_platform_device_count"] = str(num_devices)
    return {**env, "XLA_FLAGS": " ".join(f"{k}={v}" for k, v in flags.items())}
