# %% wrong="accepts zero" fails="below one"
"""Does not test its input: XLA would be asked for 0 devices."""


def launch_env(num_devices, env):
    name = "--xla_force_host_platform_device_count"
    flags = [f for f in env.get("XLA_FLAGS", "").split() if not f.startswith(name)]
    return {**env, "XLA_FLAGS": " ".join([*flags, f"{name}={num_devices}"])}


# %% wrong="appends the new count" fails="no old count"
"""Lets XLA choose: the last count wins, but the old one is still there."""


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"num_devices must be at least 1, got {num_devices}")
    count = f"--xla_force_host_platform_device_count={num_devices}"
    return {**env, "XLA_FLAGS": f"{env.get('XLA_FLAGS', '')} {count}".strip()}


# %% wrong="changes the callers env" fails="arguments stay"
"""Takes `copy = env` for a copy: both names are the same dict."""


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"num_devices must be at least 1, got {num_devices}")
    name = "--xla_force_host_platform_device_count"
    copy = env
    flags = [f for f in env.get("XLA_FLAGS", "").split() if not f.startswith(name)]
    copy["XLA_FLAGS"] = " ".join([*flags, f"{name}={num_devices}"])
    return copy


# %% wrong="drops empty variables" fails="other variables"
"""Copies the variables that are not empty."""


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"num_devices is {num_devices}, must be 1 or more")
    name = "--xla_force_host_platform_device_count"
    copy = {key: value for key, value in env.items() if value}
    flags = [f for f in copy.get("XLA_FLAGS", "").split() if not f.startswith(name)]
    copy["XLA_FLAGS"] = " ".join([*flags, f"{name}={num_devices}"])
    return copy


# %% wrong="drops other flags" fails="other flags"
"""Believes that XLA_FLAGS holds one flag only, and overwrites the others."""


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"num_devices must be at least 1, got {num_devices}")
    count = f"--xla_force_host_platform_device_count={num_devices}"
    return {**env, "XLA_FLAGS": count}


# %% wrong="flags as dict" fails="other flags; no old count"
"""Takes every flag for name=value; a flag without "=" (--xla_dump_hlo_as_text) raises,
so "other flags stay" breaks.
"""


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"num_devices = {num_devices}")
    flags = dict(flag.split("=", 1) for flag in env.get("XLA_FLAGS", "").split())
    flags.pop("--xla_force_host_platform_device_count", None)
    flags["--xla_force_host_platform_device_count"] = str(num_devices)
    return {**env, "XLA_FLAGS": " ".join(f"{k}={v}" for k, v in flags.items())}


# %% wrong="needs earlier flags" fails="device count"
"""Reads XLA_FLAGS as if it were always set, and fails where it is not."""


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"num_devices must be at least 1, got {num_devices}")
    name = "--xla_force_host_platform_device_count"
    flags = [f for f in env["XLA_FLAGS"].split() if not f.startswith(name)]
    return {**env, "XLA_FLAGS": " ".join([*flags, f"{name}={num_devices}"])}


# %% wrong="nothing to change" fails="arguments stay"
"""Returns the caller's own dict where its count is right already."""


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"num_devices is {num_devices}, below 1")
    name = "--xla_force_host_platform_device_count="
    flags = env.get("XLA_FLAGS", "").split()
    counts = [flag for flag in flags if flag.startswith(name)]
    wanted = f"{name}{num_devices}"
    if counts == [wanted]:
        return env  # as it should be
    others = [flag for flag in flags if not flag.startswith(name)]
    return env | {"XLA_FLAGS": " ".join([*others, wanted])}


# %% wrong="only removes the old count" fails="device count"
"""Removes the old count and sets none: right for one device, wrong for eight."""


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"num_devices must be at least 1, got {num_devices}")
    name = "--xla_force_host_platform_device_count"
    flags = [f for f in env.get("XLA_FLAGS", "").split() if not f.startswith(name)]
    return {**env, "XLA_FLAGS": " ".join(flags)}


# %% wrong="puts new count first" fails="device count; no old count"
"""Leaves the earlier count in place; XLA obeys the flag that comes last."""


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"num_devices must be at least 1, got {num_devices}")
    count = f"--xla_force_host_platform_device_count={num_devices}"
    return {**env, "XLA_FLAGS": f"{count} {env.get('XLA_FLAGS', '')}"}


# %% wrong="reads one digit" fails="device count"
"""Looks for a count of one digit: of 16 the 6 stays behind."""

import re


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"num_devices must be at least 1, got {num_devices}")
    count = "--xla_force_host_platform_device_count="
    others = re.sub(count + r"\d", "", env.get("XLA_FLAGS", ""))
    return {**env, "XLA_FLAGS": f"{others} {count}{num_devices}"}


# %% wrong="shares a cached dict" fails="arguments stay"
"""Keeps its results: who changes one changes what equal calls return later."""

import functools

COUNT = "--xla_force_host_platform_device_count"


@functools.cache
def _launch_env(num_devices, items):
    env = dict(items)
    flags = [
        flag for flag in env.get("XLA_FLAGS", "").split() if flag.split("=")[0] != COUNT
    ]
    return {**env, "XLA_FLAGS": " ".join([*flags, f"{COUNT}={num_devices}"])}


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"num_devices must be at least 1, not {num_devices}")
    return _launch_env(num_devices, tuple(env.items()))


# %% wrong="writes the cases into the code" fails="below one"
"""Refuses the two counts of the check, and no other below 1."""


def launch_env(num_devices, env):
    if num_devices in (0, -3):
        raise ValueError(f"num_devices must be at least 1, got {num_devices}")
    name = "--xla_force_host_platform_device_count"
    flags = [f for f in env.get("XLA_FLAGS", "").split() if not f.startswith(name)]
    return {**env, "XLA_FLAGS": " ".join([*flags, f"{name}={num_devices}"])}


# %% right="via a loop"
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


# %% right="via a sorted set"
"""Takes the flags for a set: their order does not matter."""


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"num_devices must be at least 1, got {num_devices}")
    name = "--xla_force_host_platform_device_count"
    flags = {f for f in env.get("XLA_FLAGS", "").split() if not f.startswith(name)}
    return {**env, "XLA_FLAGS": " ".join([*sorted(flags), f"{name}={num_devices}"])}


# %% right="via an error of few words"
"""Raises without the number: the caller knows it."""

COUNT = "--xla_force_host_platform_device_count"


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError("at least one device, please")
    kept = [f for f in env.get("XLA_FLAGS", "").split() if f.split("=")[0] != COUNT]
    return env | {"XLA_FLAGS": " ".join([*kept, f"{COUNT}={num_devices}"])}


# %% right="via filter"
"""Puts the new count first, where no other is left, and filters by a lambda."""

COUNT = "--xla_force_host_platform_device_count"


def launch_env(num_devices, env):
    if not num_devices >= 1:
        raise ValueError(num_devices)
    others = filter(lambda flag: COUNT not in flag, env.get("XLA_FLAGS", "").split())
    return dict(env, XLA_FLAGS=" ".join([f"{COUNT}={num_devices}", *others]))


# %% right="via helpers of our names"
"""Has helpers that are called as the course calls its own."""


def check(num_devices):
    if num_devices < 1:
        raise ValueError(f"{num_devices} devices: too few")


def observe(flag):
    return not flag.startswith("--xla_force_host_platform_device_count")


def launch_env(num_devices, env):
    check(num_devices)
    flags = [*filter(observe, env.get("XLA_FLAGS", "").split())]
    flags += [f"--xla_force_host_platform_device_count={num_devices}"]
    return env | {"XLA_FLAGS": " ".join(flags)}


# %% right="via jax num cpu devices"
"""Uses JAX's own variable for the count, and clears the XLA flag."""


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"num_devices = {num_devices} is below 1")
    flags = env.get("XLA_FLAGS", "").split()
    old = "--xla_force_host_platform_device_count="
    flags = [flag for flag in flags if flag[: len(old)] != old]
    count = {"JAX_NUM_CPU_DEVICES": str(num_devices)}
    return {**env, "XLA_FLAGS": " ".join(flags), **count}


# %% right="via more variables"
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


# %% right="via regular expression"
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


# %% right="via the bare name"
"""Looks for the flag's name without its dashes."""


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"{num_devices} is no number of devices")
    name = "xla_force_host_platform_device_count"
    kept = [flag for flag in env.get("XLA_FLAGS", "").split() if name not in flag]
    return env | {"XLA_FLAGS": " ".join([*kept, f"--{name}={num_devices}"])}


# %% wrong="cuts values at a second equals sign" fails="other flags"
"""Keeps of each flag its name and what stands between the first two "="."""


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"num_devices must be at least 1, got {num_devices}")
    flags = {}
    for flag in env.get("XLA_FLAGS", "").split():
        name, *values = flag.split("=")
        flags[name] = f"={values[0]}" if values else ""
    flags["--xla_force_host_platform_device_count"] = f"={num_devices}"
    return {**env, "XLA_FLAGS": " ".join(k + v for k, v in flags.items())}


# %% wrong="removes one earlier count" fails="no old count"
"""Replaces the first earlier count, and leaves the others."""


def launch_env(num_devices, env):
    if num_devices < 1:
        raise ValueError(f"{num_devices} devices")
    name = "--xla_force_host_platform_device_count="
    flags = env.get("XLA_FLAGS", "").split()
    old = [place for place, flag in enumerate(flags) if flag.startswith(name)]
    if old:
        del flags[old[0]]
    return {**env, "XLA_FLAGS": " ".join([*flags, f"{name}{num_devices}"])}
