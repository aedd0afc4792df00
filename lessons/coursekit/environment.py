"""The environment variables that JAX and XLA read when they start."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys

COMPILE_FAST = "JAX_DISABLE_MOST_OPTIMIZATIONS"
COUNT_FLAG = "--xla_force_host_platform_device_count"
# Those that the course sets; every supported JAX knows them.
OUR_FLAGS = COUNT_FLAG, "--xla_backend_", "--xla_cpu_parallel_codegen_split_count"
REFUSED = re.compile(
    r"Unknown flags? in XLA_FLAGS: (.*)|Couldn't interpret value .* for flag (\w+)"
    r"|Could not open file \"([^\" ]+)"
)


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


def refused_flags(env) -> str:
    """Names what XLA refuses in XLA_FLAGS, or returns "".

    XLA aborts, and writes why to the standard error, which a notebook does not show. So
    a child process starts JAX with these flags first, unless all of them are ours.
    """
    flags = env.get("XLA_FLAGS", "").split()
    if all(flag.startswith(OUR_FLAGS) for flag in flags):
        return ""
    env = {**env, "JAX_PLATFORMS": "cpu", "JAX_PLATFORM_NAME": "cpu"}
    env["TF_CPP_MIN_LOG_LEVEL"] = "0"  # then XLA says why
    command = [sys.executable, "-c", "import jax; jax.devices()"]
    child = subprocess.run(command, env=env, capture_output=True)
    said = child.stderr.decode(errors="replace")
    found = REFUSED.search(said) if child.returncode else None
    return next(filter(None, found.groups()), "") if found else ""


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
    if "KAGGLE_KERNEL_RUN_TYPE" in os.environ:  # whose image is made from Colab's
        return False
    names = ("google", "google.colab")  # the first may be another package's
    return names[1] in sys.modules or all(map(importlib.util.find_spec, names))
