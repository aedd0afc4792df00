"""Replaces the earlier count by a regular expression."""

import re


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"asked for {num_devices} devices, need at least 1")
    result = dict(env)
    count = f"--xla_force_host_platform_device_count={num_devices}"
    pattern = r"--xla_force_host_platform_device_count=\S*"
    others = re.sub(pattern, "", result.get("XLA_FLAGS", ""))
    result["XLA_FLAGS"] = f"{others} {count}".strip()
    return result
