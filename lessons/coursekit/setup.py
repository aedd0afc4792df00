"""Sets up a notebook: the environment, then JAX, then a check of its devices."""

from __future__ import annotations

import hashlib
import importlib.resources
import os
import re
import sys
from collections.abc import Mapping

from .context import current_context
from .environment import in_colab, refused_flags, set_environment
from .i18n import is_spoken, language, translated
from .notice import Notice

OLDEST_JAX = (0, 7, 2)
PYTHONS = ((3, 11), (3, 14))


class SetupError(Notice):
    """The notebook cannot start here; the text says why and what to do."""


def with_devices(
    num_devices: int,
    lesson: str = "",
    made_for: str = "",
    partial_credit: bool = True,
) -> None:
    """Starts JAX with simulated CPU devices and says how many there are.

    A platform named by `JAX_PLATFORMS` (say `cuda`) is kept, so that the same notebook
    runs on real devices, also on fewer or more, and multiplies matrices in full float32
    there; Colab always gets simulated ones.

    Args:
        num_devices: how many.
        lesson: the name of the notebook's lesson, whose checks `check` runs.
        made_for: the version of this package that the notebook was made for.
        partial_credit: whether an exercise gives a part of its points for some of its
            statements; else all of them must hold.

    Raises:
        SetupError: Python, JAX, the language or an XLA flag is not supported, jit is
            off, the platform has no device, JAX has already started with another number
            of devices, or there is only one real device.
    """
    check_python(sys.version_info[:2])
    check_language(language())
    context = current_context()
    context.lesson, context.partial_credit = lesson, partial_credit
    if in_colab():
        os.environ["JAX_PLATFORMS"] = "cpu"
    earlier = set_environment(os.environ, num_devices)
    if refused := refused_flags(os.environ):
        raise SetupError(
            f"XLA refuses {refused} in XLA_FLAGS, and would end this kernel without a "
            "message. Remove it from XLA_FLAGS in your shell, then start Jupyter again."
        )

    import jax  # only now: the environment above is read when JAX starts

    check_jax(jax.__version__)
    if jax.config.jax_disable_jit:
        raise SetupError(
            "JAX_DISABLE_JIT is set, so JAX would compile nothing, and no check could "
            "see what your programs send. Unset it in your shell, then start Jupyter "
            "again."
        )
    platforms = os.environ.setdefault("JAX_PLATFORMS", "cpu")
    jax.config.update("jax_platforms", platforms)
    try:
        devices = jax.devices()
    except (AssertionError, RuntimeError):
        name = "JAX_PLATFORMS"
        if platforms == "cpu":  # which every machine has
            name = "JAX_PLATFORM_NAME"
        raise SetupError(
            f"{name}={os.environ.get(name)}, but this machine or this JAX has no such "
            f"device. Unset {name} to simulate devices on the CPU."
        ) from None
    check_devices(devices, num_devices)
    if earlier:
        asked = (
            f"Your shell asked for {earlier} devices; this notebook uses {num_devices}."
            " To silence this line, unset XLA_FLAGS or JAX_NUM_CPU_DEVICES there."
        )
        print(translated(asked))
    kind = "simulated CPU" if platforms == "cpu" else devices[0].platform.upper()
    print(translated(f"Ready: {len(devices)} {kind} devices."))
    if len(devices) != num_devices:
        note = (
            f"The text speaks of {num_devices} devices. Lessons 1 to 3 run on these; 4 "
            f"and 5 need {num_devices}: unset JAX_PLATFORMS, which simulates them."
        )
        print(translated(note))
    if devices[0].platform != "cpu":
        # By default these multiply float32 in fewer bits; checks compare with 64.
        jax.config.update("jax_default_matmul_precision", "highest")
    if made_for not in ("", version()):
        note = (
            "This notebook was made for another version of the folder coursekit. Where "
            "a check fails oddly, take your answers into a new copy of the lesson."
        )
        print(translated(note))


def version() -> str:
    """Names this package's version; see `version_of`."""
    modules = {}

    def add(folder, prefix: str) -> None:
        for item in folder.iterdir():
            name = prefix + item.name
            if item.is_dir() and item.name != "solutions":
                add(item, f"{name}/")
            elif is_versioned(name):
                modules[name] = item.read_text(encoding="utf-8")

    add(importlib.resources.files(__package__), "")
    return version_of(modules)


def version_of(modules: Mapping[str, str]) -> str:
    """Names the version of a package of these modules, by path: their hash.

    Messages and the lessons' own checks are left out: they change what one lesson says.
    """
    digest = hashlib.sha256()
    for name in sorted(filter(is_versioned, modules)):
        digest.update(f"{name}\0{modules[name]}\0".encode())
    return digest.hexdigest()[:12]


def is_versioned(path: str) -> bool:
    """Tells whether a file of this package, by its path in it, decides its version."""
    is_message = "messages_" in path
    return path.endswith(".py") and not is_message and not is_lessons_checks(path)


def is_lessons_checks(path: str) -> bool:
    """Tells whether a file of this package holds the checks of one lesson."""
    return bool(re.match(r"checks/\d", path))


def check_python(version: tuple[int, int]) -> None:
    if not PYTHONS[0] <= tuple(version) <= PYTHONS[1]:
        raise SetupError(
            f"This is Python {version[0]}.{version[1]}; the course needs 3.11 to "
            "3.14. Use one of these (in JupyterLab: Kernel > Change Kernel)."
        )


def check_language(name: str) -> None:
    if not is_spoken(name):
        raise SetupError(
            f"COURSE_LANGUAGE={name}, but the course has no messages in it. Unset "
            "COURSE_LANGUAGE for English."
        )


def check_jax(version: str) -> None:
    if tuple(int(part) for part in re.findall(r"\d+", version)[:3]) < OLDEST_JAX:
        raise SetupError(
            f"This is JAX {version}; the course needs 0.7.2 or newer. "
            'Run `pip install "jax>=0.7.2"`, then restart the kernel.'
        )


def check_devices(devices, num_devices: int) -> None:
    """Raises `SetupError` unless there are `num_devices`, or several real ones."""
    if len(devices) == num_devices:
        return
    if devices[0].platform != "cpu" and os.environ["JAX_PLATFORMS"] != "cpu":
        if len(devices) > 1:
            return
        raise SetupError(
            f"JAX_PLATFORMS={os.environ['JAX_PLATFORMS']} gives 1 device; this notebook"
            f" needs several. Unset JAX_PLATFORMS to simulate {num_devices}."
        )
    where = "session (Runtime > Restart session)"
    if not in_colab():
        where = "kernel (Kernel > Restart Kernel)"
    raise SetupError(
        f"JAX had already started with {len(devices)} device(s) before this cell ran, "
        f"and the number is fixed from then on. Restart the {where} and run this cell "
        "first."
    )
