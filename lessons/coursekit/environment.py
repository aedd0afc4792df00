"""The environment variables that JAX and XLA read when they start."""

from __future__ import annotations

import importlib.util
import os
import sys

COMPILE_FAST = "JAX_DISABLE_MOST_OPTIMIZATIONS"
COUNT_FLAG = "--xla_force_host_platform_device_count"


def set_environment(env, num_devices: int) -> str:
    """Sets what XLA reads at its start; returns another count found there, or ""."""
    flags = env.get("XLA_FLAGS", "").split()
    counts = [flag.partition("=")[2] for flag in flags if flag.startswith(COUNT_FLAG)]
    counts += [env.pop("JAX_NUM_CPU_DEVICES", "")]
    others = [flag for flag in flags if not flag.startswith(COUNT_FLAG)]
    env["XLA_FLAGS"] = " ".join([*others, f"{COUNT_FLAG}={num_devices}"])
    # Up to JAX 0.11.2 an all-reduce on few cores can run out of threads and abort.
    env["NPROC"] = env["PJRT_NPROC"] = "32"
    # JAX 0.7.2 writes an error for a part of TensorFlow's that a profile does without.
    env.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return next((count for count in counts if count not in ("", str(num_devices))), "")


def environment_of_a_child() -> dict[str, str]:
    """Returns this process's environment without what sets up its own JAX.

    How programs are compiled stays: with it a child computes the same bits.
    """
    kept = ("JAX_COMPILATION_CACHE_", "JAX_PERSISTENT_CACHE_", COMPILE_FAST)
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(kept) or not name.startswith(("XLA_", "JAX_"))
    }


def in_colab() -> bool:
    names = ("google", "google.colab")  # the first may be another package's
    return names[1] in sys.modules or all(map(importlib.util.find_spec, names))
