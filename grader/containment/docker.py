"""Makes the same box by Docker or Podman, where bubblewrap is not available."""

from __future__ import annotations

import io
import os
import secrets
import subprocess
import tarfile

from grader.containment.box import (
    SETTINGS,
    SYSTEM,
    Box,
    limited_init,
    rlimits,
    unused_uid,
)

IMAGE = "distributed-jax-course:tmp"  # an empty /tmp: the rest is mounted read-only


def engine(program: str, command: list[str], box: Box) -> list[str]:
    """No network, a read-only system, limits; ends when its standard input closes."""
    limits, user = box.limits, f"{os.geteuid()}:{os.getegid()}"
    words = [program, "run", "--rm", "--interactive", "--pull=never", "--read-only"]
    words += [f"--name=box-{secrets.token_hex(8)}", "--log-driver=none"]
    words += ["--network=none", "--cap-drop=ALL", "--security-opt=no-new-privileges"]
    words += [f"--pids-limit={limits.processes}", f"--shm-size={limits.disk_mib // 2}m"]
    words += [f"--memory={limits.memory_mib}m", f"--memory-swap={limits.memory_mib}m"]
    words += [f"--tmpfs=/tmp:rw,exec,mode=1777,size={limits.disk_mib}m"]
    words += ["--workdir=/tmp", "--hostname=box"]
    if program == "podman":
        words += ["--security-opt=label=disable", "--read-only-tmpfs=false"]
    if os.geteuid() == 0:
        uid = unused_uid()
        user = f"{uid}:{uid}"
    elif program == "podman":
        words += ["--userns=keep-id"]
    words += [f"--user={user}"]
    system = [path for path in SYSTEM if os.path.exists(path)]
    system += [f"/etc/{name}" for name in SETTINGS if os.path.exists(f"/etc/{name}")]
    for inside, outside in ({path: path for path in system} | box.mounts).items():
        words += ["--volume", f"{outside}:{inside}:ro"]
    # Not by --env: the engine would add its own settings, such as a proxy's password.
    words += [IMAGE, "/usr/bin/env", "-i"]
    words += [f"{name}={value}" for name, value in box.environment.items()]
    # --pids-limit is for one box; a limit on a user's processes would be for all boxes.
    each = {n: value for n, value in rlimits(limits).items() if n != "nproc"}
    return words + limited_init(command, each)


def make_image(program: str) -> None:
    """Makes the image that Docker and Podman start from, unless it exists."""
    found = [program, "image", "inspect", IMAGE]
    if subprocess.run(found, capture_output=True, timeout=30).returncode:
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            folder = tarfile.TarInfo("tmp")
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
            tar.addfile(folder)
        subprocess.run(
            [program, "import", "-", IMAGE],
            input=archive.getvalue(),
            capture_output=True,
            timeout=60,
            check=True,
        )


def remove(command: list[str]) -> None:
    """Kills the container that `engine` wrote this command line for."""
    name = next(word for word in command if word.startswith("--name="))
    words = [command[0], "rm", "--force", name.removeprefix("--name=")]
    subprocess.run(words, capture_output=True, timeout=60)
