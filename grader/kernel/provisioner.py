"""A Jupyter kernel provisioner that starts kernels inside the containment."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import subprocess
import sys
import tempfile
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner
from traitlets import Instance

from grader import ROOT
from grader.authoring import coursekit
from grader.containment.backend import backend, contained
from grader.containment.box import Box
from grader.containment.docker import remove
from grader.containment.fork_server import (
    ForkServerError,
    box_sockets,
    shared_server,
)
from grader.containment.limits import ContainmentError
from grader.containment.monitor import Monitor, StderrTail
from grader.containment.scratch import prefix, short_folder
from grader.kernel import compile_cache

NAME = "contained"
WORTH_FORK_SERVER = 4  # submissions
INSIDE = "/tmp/course"  # where the course's modules lie inside the box
LAUNCHER = ["-m", "ipykernel_launcher"]
KERNEL = [*LAUNCHER, "-f", "{connection_file}"]
# The last hides the warning of trusted kernels about unencrypted TCP connections.
KERNEL += ["--HistoryManager.enabled=False", "--log-level=ERROR"]


def learner_packages(root: Path = ROOT) -> dict[str, Path]:
    """Lists the folders that a learner's kernel imports, by their path in the box."""
    inside = ("grader/containment/inside", "grader/kernel/inside")
    return {"coursekit": coursekit.folder(root)} | {
        name: ROOT / name for name in inside
    }


def learner_box(root: Path = ROOT, compiled: Path | None = None, **more: Any) -> Box:
    """Makes the box of a learner's kernel.

    Args:
        root: the course whose modules lie in it.
        compiled: a folder of compiled programs; see compile_cache.py.
        more: sets other fields of the box.
    """
    packages = learner_packages(root).items()
    found = [(path, f"{INSIDE}/{name}") for name, path in packages]
    found += [(compiled, compile_cache.INSIDE)] if compiled else []
    env = {"PYTHONPATH": INSIDE, "MPLCONFIGDIR": "/tmp/.matplotlib"}
    env |= compile_cache.variables()
    return Box(read_only=tuple(found), env=env, **more)


class ContainedProvisioner(LocalProvisioner):
    """Starts a kernel in a box, on IPC sockets in a folder of its own.

    Registered by `register` under the name "contained": a kernel spec's metadata or
    JUPYTER_DEFAULT_PROVISIONER_NAME choose it.
    """

    box = Instance(Box)
    folder: Path | None = None
    command: tuple[str, ...] = ()
    monitor: Monitor | None = None
    stderr_tail: StderrTail | None = None
    backend: str = ""

    def _box_default(self) -> Box:
        return learner_box()

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Puts the kernel's command into the box.

        Raises:
            ContainmentError: nothing here can contain it.
        """
        self.backend = backend()
        # A restarted kernel takes the same paths: clients stay connected to them.
        if self.folder is None:
            # Short: the path of a socket has at most 107 bytes.
            made = tempfile.mkdtemp(prefix=prefix("box"), dir=short_folder())
            self.folder = Path(made)
        manager = self.parent
        manager.transport = "ipc"
        manager.connection_file = str(self.folder / "kernel.json")
        manager.ip = str(self.folder / "s")
        self.kernel_spec.interrupt_mode = "message"  # a signal would end the box
        kwargs = await super().pre_launch(**kwargs)
        host = ("PATH", "HOME", "XDG_RUNTIME_DIR", "DOCKER_HOST")
        kwargs["env"] = {key: os.environ[key] for key in host if key in os.environ}
        kwargs["cwd"] = "/"
        return kwargs

    async def launch_kernel(self, cmd: list[str], **kwargs: Any):
        """Starts the kernel in its box, and the monitor of what it uses.

        An IPython kernel comes from the fork server, where that works.
        """
        reading, writing = os.pipe()
        self.stderr_tail = StderrTail(reading)
        self.stderr_tail.start()
        kwargs |= {"stdout": subprocess.DEVNULL, "stderr": writing}
        box = dataclasses.replace(self.box, writable=self.folder)
        parent = None
        try:
            if self.backend == "bubblewrap" and cmd[1:3] == LAUNCHER:
                with contextlib.suppress(ForkServerError):
                    parent = await self.fork(cmd[1:], box, **kwargs)
            if parent is None:
                words = [sys.executable, *cmd[1:]]
                await self.launch(contained(words, box, self.backend), **kwargs)
        except BaseException:
            await self.cleanup()
            raise
        finally:
            os.close(writing)
        pids = [pid for pid in (self.process.pid, parent) if pid]
        self.monitor = Monitor(pids, self.folder, self.box.limits)
        self.monitor.start()
        return self.connection_info

    async def launch(self, command: list[str], **kwargs: Any) -> None:
        """Runs the command line of a box."""
        self.command = tuple(command)
        if self.is_engine:
            kwargs["stdin"] = subprocess.PIPE  # its end is the container's
        await super().launch_kernel(command, **kwargs)

    async def fork(self, argv: list[str], box: Box, **kwargs: Any) -> int:
        """Lets the fork server start the kernel; returns its parent process.

        Raises:
            ForkServerError: it cannot; nothing is left behind.
        """
        server = shared_server(INSIDE, learner_packages(), learner_box().environment)
        box_socket, theirs = box_sockets()
        with box_socket:
            with theirs:
                command = contained([], box, self.backend)
                await self.launch(command, **kwargs, stdin=theirs)
            try:
                with open(os.devnull, "r+b", buffering=0) as null:
                    streams = [null.fileno(), null.fileno(), kwargs["stderr"]]
                    return server.start(argv, box, box_socket, streams)
            except ForkServerError:
                self.process.kill()
                self.process.wait()
                raise

    @property
    def is_engine(self) -> bool:
        """Tells whether Docker or Podman runs the kernel."""
        return self.command[:1] in (("docker",), ("podman",))

    def remove_connection_folder(self) -> None:
        """Removes the kernel's folder, so that nothing can be created there any more.

        To be called when a client's channels are connected, before untrusted code runs:
        that could fill this machine's disk, or replace a socket by one of its own.
        """
        for path in self.folder.iterdir():
            path.unlink()
        self.folder.rmdir()
        self.folder = None

    async def kill(self, restart: bool = False) -> None:
        """Kills the box and everything in it."""
        await super().kill(restart)
        if self.is_engine:  # only its client was killed above
            await asyncio.to_thread(remove, self.command)

    async def cleanup(self, restart: bool = False) -> None:
        """Stops the monitor and removes the files in the kernel's folder."""
        if self.monitor:
            self.monitor.stop()
        await super().cleanup(restart)
        if self.folder:
            found = [*self.folder.iterdir()] if restart else [self.folder]
            # Untrusted code can nest folders too deeply for shutil.rmtree.
            subprocess.run(["rm", "-rf", "--", *found], stderr=subprocess.DEVNULL)


class Kernels(KernelSpecManager):
    """Provides two kernels, whatever is installed: a contained and a trusted one."""

    box = Instance(Box, allow_none=True)

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """Returns the spec of "contained" or "trusted"."""
        spec = KernelSpec(
            argv=[sys.executable, *KERNEL], display_name=kernel_name, language="python"
        )
        if kernel_name == NAME:
            config = {"box": self.box} if self.box else {}
            spec.metadata = {
                "kernel_provisioner": {"provisioner_name": NAME, "config": config}
            }
            spec.interrupt_mode = "message"
        return spec


def start_fork_server() -> None:
    """Starts the fork server before kernels are needed, where boxes can use it."""
    if backend() == "bubblewrap":
        for _ in range(2):  # the first call is refused, as if for a single kernel
            with contextlib.suppress(ForkServerError):
                shared_server(INSIDE, learner_packages(), learner_box().environment)


def start_fork_server_for(folder: Path) -> None:
    """Starts the fork server if many submissions in a class's folder are not graded."""
    submitted = len([*folder.glob("submitted/*/*")])
    if submitted - len([*folder.glob("grading/published/*/*")]) >= WORTH_FORK_SERVER:
        with contextlib.suppress(ContainmentError):  # reported by the grading itself
            start_fork_server()


def register() -> None:
    """Registers the provisioner with jupyter_client in this process."""
    place = f"{__name__}:{ContainedProvisioner.__name__}"
    known = KernelProvisionerFactory.instance().provisioners
    known[NAME] = EntryPoint(NAME, place, KernelProvisionerFactory.GROUP_NAME)
