"""The environment variables that JAX and XLA read when they start."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys

COUNT_FLAG = "--xla_force_host_platform_device_count"
# A lesson's programs are small and run a few times, so learners wait for the compiler.
# With these XLA makes the same program, but loops go to LLVM directly, in one piece,
# not through MLIR, and LLVM does not optimize its code. A JAX that does not know an
# extra option ignores it; XLA aborts at an unknown flag, so a JAX that nobody tried
# gets none.
FAST_COMPILE_FLAGS = (
    "--xla_backend_optimization_level=0",
    "--xla_cpu_parallel_codegen_split_count=1",
    "--xla_backend_extra_options=xla_cpu_disable_new_fusion_emitters",
)
NEWEST_JAX_TRIED = (0, 12)
REFUSED = re.compile(
    r"Unknown flags? in XLA_FLAGS: (.*)|Couldn't interpret value .* for flag (\w+)"
    r"|Could not open file \"([^\" ]+)"
)


def set_environment(env, num_devices: int) -> str:
    """Sets what XLA reads at its start; returns another count found there, or "".

    Programs for simulated devices are compiled fast, unless the flags say otherwise.
    """
    flags = env.get("XLA_FLAGS", "").split()
    if env.get("JAX_PLATFORMS", "cpu") == "cpu":
        said = {flag.partition("=")[0] for flag in flags}
        fast = fast_compile_flags()
        flags += [flag for flag in fast if flag.partition("=")[0] not in said]
    counts = [flag.partition("=")[2] for flag in flags if flag.startswith(COUNT_FLAG)]
    counts += [env.pop("JAX_NUM_CPU_DEVICES", "")]
    others = [flag for flag in flags if not flag.startswith(COUNT_FLAG)]
    env["XLA_FLAGS"] = " ".join([*others, f"{COUNT_FLAG}={num_devices}"])
    # Up to JAX 0.11.2 an all-reduce on few cores can run out of threads and abort.
    env["NPROC"] = env["PJRT_NPROC"] = "32"
    # JAX 0.7.2 writes an error for a part of TensorFlow's that a profile does without.
    env.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return next((count for count in counts if count not in ("", str(num_devices))), "")


def fast_compile_flags() -> tuple[str, ...]:
    """Returns `FAST_COMPILE_FLAGS`, or none for a JAX newer than those tried."""
    return FAST_COMPILE_FLAGS if jax_version() <= NEWEST_JAX_TRIED else ()


def refused_flags(env) -> str:
    """Names what XLA refuses in XLA_FLAGS, or returns "".

    XLA aborts, and writes why to the standard error, which a notebook does not show. So
    a child process starts JAX with these flags first, unless all of them are ours.
    """
    flags = env.get("XLA_FLAGS", "").split()
    if all(flag.startswith(COUNT_FLAG) or flag in FAST_COMPILE_FLAGS for flag in flags):
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

    The settings of the compilation cache stay, so that it need not compile anew.
    """
    kept = ("JAX_COMPILATION_CACHE_", "JAX_PERSISTENT_CACHE_")
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(kept) or not name.startswith(("XLA_", "JAX_"))
    }


def jax_version() -> tuple[int, int]:
    """Returns the first two numbers of the installed JAX's version."""
    found = re.findall(r"\d+", importlib.metadata.version("jax"))
    return int(found[0]), int(found[1])


def in_colab() -> bool:
    if "KAGGLE_KERNEL_RUN_TYPE" in os.environ:  # whose image is made from Colab's
        return False
    names = ("google", "google.colab")  # the first may be another package's
    return names[1] in sys.modules or all(map(importlib.util.find_spec, names))
