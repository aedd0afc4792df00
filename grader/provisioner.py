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

from grader import COMPANIONS, MODULES, ROOT, compile_cache
from grader.box import stranger
from grader.containment import Box, ContainmentError, backend, contained
from grader.engine import remove
from grader.warm import ColdError, holder, line, shared
from grader.watch import Watch, Words

NAME = "contained"
WORTH_WARMING = 4  # submissions
INSIDE = "/tmp/course"  # where the course's modules lie inside the box
ZYGOTE = "zygote"  # the module in there that forks Python
LAUNCHER = ["-m", "ipykernel_launcher"]
KERNEL = [*LAUNCHER, "-f", "{connection_file}"]
# The last is for trusted kernels on TCP: no remark on unencrypted connections.
KERNEL += ["--HistoryManager.enabled=False", "--log-level=ERROR"]


def learner_modules(root: Path = ROOT) -> list[Path]:
    """Lists what a learner's kernel imports: the lessons' modules and our half."""
    ours = [ROOT / "grader" / f"{name}.py" for name in COMPANIONS]
    return [*(root / "lessons" / f"{name}.py" for name in MODULES), *ours]


def learner_box(root: Path = ROOT, compiled: Path | None = None, **more: Any) -> Box:
    """Makes the box of a learner's kernel.

    Args:
        root: the course whose modules lie in it.
        compiled: a folder of compiled programs; see grader/compile_cache.py.
        more: sets other fields of the box.
    """
    found = [(path, f"{INSIDE}/{path.name}") for path in learner_modules(root)]
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
    watch: Watch | None = None
    words: Words | None = None
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
            self.folder = Path(tempfile.mkdtemp(prefix="box-", dir=short_folder()))
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
        """Starts the kernel in its box, and the watch over what it uses.

        A kernel like the grader's own comes from the fork server, where that works.
        """
        reading, writing = os.pipe()
        self.words = Words(reading)
        self.words.start()
        kwargs |= {"stdout": subprocess.DEVNULL, "stderr": writing}
        box = dataclasses.replace(self.box, writable=self.folder)
        waiting = None
        try:
            if self.backend == "bubblewrap" and cmd[1:3] == LAUNCHER:
                with contextlib.suppress(ColdError):
                    waiting = await self.fork(cmd[2:], box, **kwargs)
            if waiting is None:
                words = [sys.executable, *cmd[1:]]
                await self.launch(contained(words, box, self.backend), **kwargs)
        except BaseException:
            await self.cleanup()
            raise
        finally:
            os.close(writing)
        pids = [pid for pid in (self.process.pid, waiting) if pid]
        self.watch = Watch(pids, self.folder, self.box.limits)
        self.watch.start()
        return self.connection_info

    async def launch(self, command: list[str], **kwargs: Any) -> None:
        """Runs the command line of a box."""
        self.command = tuple(command)
        if self.is_engine:
            kwargs["stdin"] = subprocess.PIPE  # its end is the container's
        await super().launch_kernel(command, **kwargs)

    async def fork(self, argv: list[str], box: Box, **kwargs: Any) -> int:
        """Lets the fork server start the kernel; returns who waits for its end.

        Raises:
            ColdError: it cannot; nothing is left of the try.
        """
        server = shared(INSIDE, learner_modules(), learner_box().environment)
        held, theirs = line()
        with held:
            with theirs:
                command = contained([], box, self.backend)
                await self.launch(command, **kwargs, stdin=theirs)
            try:
                uid = os.geteuid() or stranger(box.writable)
                asked = {**holder(held), "uid": uid, "argv": argv, "zygote": ZYGOTE}
                asked["env"] = dict(box.environment)
                with open(os.devnull, "r+b", buffering=0) as null:
                    streams = [null.fileno(), null.fileno(), kwargs["stderr"]]
                    return server.start(asked, held, streams)
            except ColdError:
                self.process.kill()
                self.process.wait()
                raise

    @property
    def is_engine(self) -> bool:
        """Tells whether Docker or Podman holds the kernel."""
        return self.command[:1] in (("docker",), ("podman",))

    def seal(self) -> None:
        """Removes the kernel's folder, in which nothing new can come to be from now on.

        For a client whose channels are connected, before any code of a stranger's runs:
        what that wrote there would lie on this machine's disk, and what it put in place
        of a socket could be connected to.
        """
        for path in self.folder.iterdir():
            path.unlink()
        self.folder.rmdir()
        self.folder = None

    async def kill(self, restart: bool = False) -> None:
        """Kills the box with all that is in it."""
        await super().kill(restart)
        if self.is_engine:  # what is killed above is its client
            await asyncio.to_thread(remove, self.command)

    async def cleanup(self, restart: bool = False) -> None:
        """Ends the watch and removes what lies in the kernel's folder."""
        if self.watch:
            self.watch.stop()
        await super().cleanup(restart)
        if self.folder:
            found = [*self.folder.iterdir()] if restart else [self.folder]
            # Not by shutil.rmtree, for which a stranger can nest folders too deeply.
            subprocess.run(["rm", "-rf", "--", *found], stderr=subprocess.DEVNULL)


class Kernels(KernelSpecManager):
    """Knows two kernels, whatever is installed: a contained one and a trusted one."""

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


def warm_up() -> None:
    """Starts the fork server before kernels are asked for, where boxes can use it."""
    if backend() == "bubblewrap":
        for _ in range(2):  # the first call would have the first kernel start cold
            with contextlib.suppress(ColdError):
                shared(INSIDE, learner_modules(), learner_box().environment)


def warm_up_for(folder: Path) -> None:
    """Starts the fork server for a class's folder, where many are not graded yet."""
    submitted = len([*folder.glob("submitted/*/*")])
    if submitted - len([*folder.glob("grading/published/*/*")]) >= WORTH_WARMING:
        with contextlib.suppress(ContainmentError):  # told when it comes to grading
            warm_up()


def register() -> None:
    """Makes the provisioner known to jupyter_client in this process."""
    place = f"{__name__}:{ContainedProvisioner.__name__}"
    known = KernelProvisionerFactory.instance().provisioners
    known[NAME] = EntryPoint(NAME, place, KernelProvisionerFactory.GROUP_NAME)


def short_folder() -> str:
    """Names a folder for sockets, whose paths must be short."""
    chosen = tempfile.gettempdir()
    return chosen if len(chosen) <= 40 else "/tmp"
