"""What a box hides, forbids and limits: the payloads run inside one, never outside.

A learner's kernel is probed here for what it can see and do, bare boxes for their
limits, and the command lines of Docker and Podman for what they ask for.
"""

import itertools
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import types
from pathlib import Path

import printed
import pytest

from grader import ROOT
from grader.containment import backend as backend_module
from grader.containment import box, docker
from grader.containment.backend import backend, contained
from grader.containment.box import Box, python_folders
from grader.containment.inside import box_init
from grader.containment.limits import ContainmentError, Limits
from grader.kernel import session as sessions
from grader.kernel.learner_box import INSIDE, fork_server, learner_packages
from grader.kernel.session import Session
from grader.lessons import coursekit

SECRET = "a-secret-of-the-grader"
COURSE = ("solutions", "tests", "grader", "lessons", "pyproject.toml", ".git")

# What the probes below use inside: the outcome of an attempt, and plain C calls.
PRELUDE = """
import ctypes, glob, json, os, socket, subprocess, sys, threading

libc = ctypes.CDLL(None, use_errno=True)

def tried(function, *arguments):
    try:
        return function(*arguments)
    except BaseException as error:
        return type(error).__name__

def call(name, *arguments):
    if getattr(libc, name)(*arguments) < 0:
        return os.strerror(ctypes.get_errno())
    return "done"

def text(path):
    with open(path, errors="replace") as file:
        return file.read()

def write(path):
    with open(path, "a") as file:
        file.write("# a learner was here")
    return "written"

def tell(value):
    print(json.dumps(value))
"""


@pytest.fixture(scope="module")
def host():
    """Things of this machine that a learner would like to reach."""
    folder = Path(tempfile.mkdtemp(prefix="host-", dir="/tmp"))
    (folder / "answers.ipynb").write_text(SECRET)
    shared = Path("/dev/shm") / folder.name
    shared.write_text(SECRET)
    sockets = {
        "path": (socket.AF_UNIX, str(folder / "socket")),
        "abstract": (socket.AF_UNIX, "\0" + folder.name),
        "tcp": (socket.AF_INET, ("127.0.0.1", 0)),
    }
    opened = {}
    for name, (family, address) in sockets.items():
        opened[name] = socket.socket(family)
        opened[name].bind(address)
        opened[name].listen()
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    os.environ["GRADER_SECRET"] = SECRET
    yield types.SimpleNamespace(
        folder=folder,
        shared=shared,
        process=process,
        addresses={name: one.getsockname() for name, one in opened.items()},
        sockets=[*opened.values()],
    )
    del os.environ["GRADER_SECRET"]
    process.stdin.close()
    process.wait()
    for one in opened.values():
        one.close()
    shared.unlink()
    shutil.rmtree(folder)


@pytest.fixture(scope="module", params=["forked", "a process of its own"])
def session(contained_here, host, request):
    with pytest.MonkeyPatch.context() as patch:
        forks = request.param == "forked"
        server = fork_server(start=True) if forks else None
        patch.setattr(sessions, "fork_server", lambda: server)
        with Session(Limits(wall_s=40)) as session:
            forked = probe(session, "import sys\nprint(int('jax' in sys.modules))")
            assert forked == forks
            assert session.run(PRELUDE).error == ""
            yield session


def probe(session, code):
    """Runs `code` in a learner's kernel and returns what it tells."""
    result = printed.run(session, code)
    assert result.error == ""
    return json.loads(result.text.splitlines()[-1])


def bare(code, limits=None):
    """Runs `code` in a box without a kernel, which takes no time."""
    words = [sys.executable, "-I", "-S", "-c", PRELUDE + code]
    command = contained(words, Box(limits or Limits()), "bubblewrap")
    how = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    return subprocess.run(command, timeout=60, **how)


# What a learner's code sees.


def test_no_file_of_the_course_is_visible(session):
    paths = [str(ROOT / name) for name in COURSE]
    assert probe(session, f"tell([p for p in {paths} if os.path.lexists(p)])") == []


def test_nothing_but_the_system_python_and_the_modules_is_mounted(session):
    mounts = probe(session, "tell([l.split() for l in open('/proc/self/mountinfo')])")
    inside = {line[4] for line in mounts}
    ours = {str(path) for path in python_folders()} | {box.BOX_INIT}
    ours |= {f"{INSIDE}/{name}" for name in learner_packages()}
    ours |= {f"/etc/{name}" for name in box.SETTINGS} | set(box.SYSTEM)
    ours |= {"/", "/tmp", "/dev", "/etc/hosts"}
    rest = {path for path in inside - ours if not path.startswith(("/proc", "/dev/"))}
    assert not rest


def test_no_module_but_the_lessons_and_the_learners_half_lies_in_a_box(session):
    code = f"tell(glob.glob('{INSIDE}/**/*.*', recursive=True))"
    found = {path for path in probe(session, code) if not path.endswith(".pyc")}
    half = ("__init__", "frames", "responder", "runner", "wire")
    wanted = {f"grader/kernel/inside/{name}.py" for name in half}
    wanted |= {f"coursekit/{name}" for name in coursekit.read()}
    assert found == {f"{INSIDE}/{name}" for name in wanted}


def test_writable_places_hold_no_programs_with_rights_and_no_devices(session):
    lines = probe(session, "tell([l.split() for l in open('/proc/self/mountinfo')])")
    for line in lines:
        place, options = line[4], line[5].split(",")
        assert "nosuid" in options
        assert "nodev" in options or place.startswith("/dev/")
        if "rw" in options:
            assert place.startswith(("/proc", "/dev/", "/tmp"))


def test_homes_settings_and_sockets_of_the_host_do_not_exist(session):
    paths = [f"/{name}" for name in ("home", "var", "run", "mnt", "sys", "boot", "srv")]
    paths += [f"/etc/{name}" for name in ("passwd", "shadow", "ssh", "ssl")]
    paths += ["/var/run/docker.sock", "/run/docker.sock", "/dev/vda", "/dev/sda"]
    shown = [str(p) for p in (*python_folders(), *map(Path, box.SYSTEM))]
    paths = [p for p in paths if not any(s.startswith(f"{p}/") for s in shown)]
    assert probe(session, f"tell([p for p in {paths} if os.path.lexists(p)])") == []


def test_homes_show_nothing_but_python(session):
    prefixes = [str(path) for path in python_folders()]
    code = f"""
prefixes = {prefixes}
found = []
for top in ("/root", "/home", "/opt", "/work"):
    for folder, folders, files in os.walk(top):
        if folder in prefixes:
            folders.clear()
            continue
        found += [os.path.join(folder, name) for name in files]
tell(found)
"""
    assert probe(session, code) == []


def test_the_loader_finds_its_settings(session):
    code = "tell([os.access('/etc', os.R_OK | os.X_OK), os.path.exists('/etc/fstab')])"
    assert probe(session, code) == [True, False]


def test_temporary_folders_and_shared_memory_are_private(session, host):
    code = """
open("/tmp/mine", "w").close()
open("/dev/shm/mine-of-a-learner", "w").close()
tell([os.listdir("/tmp"), os.listdir("/dev/shm")])
"""
    temporary, shared = probe(session, code)
    assert host.folder.name not in temporary
    assert shared == ["mine-of-a-learner"]
    assert not Path("/dev/shm/mine-of-a-learner").exists()
    paths = [str(host.folder), str(host.shared)]
    assert probe(session, f"tell([p for p in {paths} if os.path.exists(p)])") == []


def test_temporary_folders_are_of_the_size_of_the_limits(session):
    code = """
sizes = [os.statvfs(path) for path in ("/tmp", "/dev/shm")]
tell([size.f_blocks * size.f_frsize for size in sizes])
"""
    most = Limits().disk_mib * 2**20
    assert probe(session, code) == [most, most // 2]


def test_the_environment_of_the_grader_is_not_visible(session):
    code = """
seen = [dict(os.environ)]
for path in glob.glob("/proc/*/environ") + glob.glob("/proc/*/task/*/environ"):
    seen.append(tried(text, path))
tell([json.dumps(seen), os.environ["COURSE_CONTAINED"]])
"""
    seen, mark = probe(session, code)
    assert SECRET not in seen
    assert "GRADER" not in seen
    assert mark == "1"


def test_every_process_of_a_box_starts_with_the_box_environment(
    contained_here, host, monkeypatch
):
    run = bare("tell([tried(text, p) for p in glob.glob('/proc/*/environ')])")
    assert run.returncode == 0
    assert SECRET not in run.stdout


def test_no_process_of_the_host_is_visible(session, host):
    code = """
found = {}
for pid in filter(str.isdigit, os.listdir("/proc")):
    found[pid] = tried(text, f"/proc/{pid}/comm")
tell(found)
"""
    found = probe(session, code)
    assert len(found) == 2  # the box's first process, and the kernel
    assert found["1"].strip() == "python"


def test_every_namespace_is_a_new_one(session):
    names = ["ipc", "mnt", "net", "pid", "uts"] + (["user"] if os.geteuid() else [])
    code = f"tell([os.readlink(f'/proc/self/ns/{{n}}') for n in {names}])"
    ours = [os.readlink(f"/proc/self/ns/{name}") for name in names]
    assert not set(probe(session, code)) & set(ours)


def test_no_socket_of_the_host_can_be_reached(session, host):
    code = f"""
addresses = {host.addresses}
def connect(family, address):
    with socket.socket(family) as one:
        one.settimeout(5)
        one.connect(address)
        return "connected"
tell({{
    "path": tried(connect, socket.AF_UNIX, addresses["path"]),
    "abstract": tried(connect, socket.AF_UNIX, addresses["abstract"]),
    "tcp": tried(connect, socket.AF_INET, tuple(addresses["tcp"])),
}})
"""
    found = probe(session, code)
    assert found["path"] == "FileNotFoundError"
    assert found["abstract"] == "ConnectionRefusedError"
    # By chance the box's own kernel can listen on a port of the same number.
    assert found["tcp"] in ("ConnectionRefusedError", "connected")
    for one in host.sockets:
        one.setblocking(False)
        with pytest.raises(BlockingIOError):
            one.accept()


def test_there_is_no_network(session):
    code = """
def send(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        return one.sendto(b"x", address)
tell({
    "interfaces": [name for _, name in socket.if_nameindex()],
    "udp": tried(send, ("192.0.2.1", 53)),
    "names": tried(socket.getaddrinfo, "example.org", 443),
    "raw": tried(socket.socket, socket.AF_INET, socket.SOCK_RAW, 1),
    "packet": tried(socket.socket, socket.AF_PACKET, socket.SOCK_RAW, 3),
})
"""
    found = probe(session, code)
    assert set(found.pop("interfaces")) <= {"lo", "sit0", "ip6tnl0", "tunl0"}
    assert found == {
        "udp": "OSError",
        "names": "gaierror",
        "raw": "PermissionError",
        "packet": "PermissionError",
    }


def test_processes_of_a_box_find_each_other_by_its_own_names_alone(session):
    code = """
import pathlib
server = socket.create_server(("localhost", 0))
names = ("localhost", socket.gethostname())
for name in names:
    socket.create_connection((name, server.getsockname()[1]), timeout=5)
tell(pathlib.Path("/etc/hosts").read_text())
"""
    assert probe(session, code) == "127.0.0.1 localhost box\n"


# What a learner's code can do.


def test_no_process_of_the_host_can_be_signalled(session, host):
    code = f"tell([tried(os.kill, {host.process.pid}, 9), tried(os.kill, -1, 9)])"
    assert probe(session, code)[0] == "ProcessLookupError"
    assert host.process.poll() is None


def test_no_process_can_be_traced(session):
    code = """
tell([call("ptrace", 16, pid, 0, 0) for pid in (1, os.getppid())]
    + [tried(open, f"/proc/1/{name}", "rb") for name in ("mem", "environ", "maps")])
"""
    assert set(probe(session, code)) == {"Operation not permitted", "PermissionError"}


def test_there_are_no_rights_and_no_way_to_get_any(session):
    status = probe(
        session, "tell(dict(l.split(':', 1) for l in open('/proc/self/status')))"
    )
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        if name != "CapBnd" or not os.geteuid():
            assert int(status[name], 16) == 0, name
    assert status["NoNewPrivs"].strip() == "1"
    assert status["Seccomp"].strip() == "2"
    assert "0" not in status["Uid"].split()


def test_programs_that_give_rights_do_not(session):
    code = """
commands = ["su -c id", "sudo -n id", "mount -t tmpfs x /tmp", "unshare -r id",
    "nsenter -t 1 -m id", "chroot / id", "umount /usr"]
def status(command):
    quiet = {"stdin": subprocess.DEVNULL, "capture_output": True}
    return subprocess.run(command.split(), **quiet).returncode
tell([tried(status, command) for command in commands])
"""
    assert all(status != 0 for status in probe(session, code))


def test_memory_and_file_systems_that_no_limit_counts_are_denied(session):
    code = """
new_user = 0x10000000
column = ["x86_64", "aarch64"].index(os.uname().machine)
tell({
    "unshare": call("unshare", new_user),
    "clone": call("syscall", (56, 220)[column], new_user | 17, *[None] * 4),
    "clone3": call("syscall", 435, None, 0),
    "mount": call("mount", b"x", b"/tmp", b"tmpfs", 0, b"size=100%"),
    "fsopen": call("syscall", 430, b"tmpfs", 0),
    "memfd": tried(os.memfd_create, "x"),
    "shmget": call("shmget", 0, 2**20, 0o1600),
    "semget": call("semget", 0, 1, 0o1600),
    "msgget": call("msgget", 0, 0o1600),
    "keyctl": call("syscall", (250, 219)[column], 0, -3, 1),
    "io_uring": call("syscall", 425, 1, None),
    "processors": tried(os.sched_setaffinity, 0, os.sched_getaffinity(0)),
    "root": tried(os.setuid, 0),
    "groups": tried(os.setgroups, [0]),
    "node": tried(os.mknod, "/tmp/node", 0o20666, os.makedev(1, 1)),
})
"""
    found = probe(session, code)
    assert found.pop("clone3") == "Function not implemented"
    assert found.pop("root") in (
        "PermissionError",
        "OSError",
    )  # not known, no such user
    assert set(found.values()) == {"Operation not permitted", "PermissionError"}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 has them")
def test_system_calls_by_other_numbers_are_denied(contained_here):
    code = "tell(call('syscall', ctypes.c_long(0x40000000 + 272), 0x10000000))"
    assert json.loads(bare(code).stdout) == "Function not implemented"


def test_everything_but_the_private_folders_is_read_only(session):
    site = Path(json.__file__).parent
    packages = Path(pytest.__file__).parent.parent
    places = ["/new", "/usr/new", "/usr/bin/env", "/dev/new", "/etc/new", box.BOX_INIT]
    places += [str(site / "decoder.py"), str(site / "new.pyc")]
    places += [str(packages / name) for name in ("sitecustomize.py", "new.pth")]
    places += [f"{sys.prefix}/pyvenv.cfg", f"{sys.base_prefix}/new"]
    for name, folder in learner_packages().items():
        places += [f"{INSIDE}/{name}/{path.name}" for path in folder.glob("*.py")]
        places += [f"{INSIDE}/{name}/new.py"]
    places += ["/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger"]
    found = probe(session, f"tell({{p: tried(write, p) for p in {places}}})")
    assert {path for path, outcome in found.items() if outcome == "written"} == set()
    assert "a learner was here" not in (coursekit.folder() / "observe.py").read_text()


def test_two_boxes_share_nothing(session, contained_here):
    code = """
open("/tmp/of-WHOM", "w").close()
open("/dev/shm/of-WHOM", "w").close()
tell(os.getuid())
"""
    seen = "tell(glob.glob('/tmp/of-*') + glob.glob('/dev/shm/of-*'))"
    uid = probe(session, code.replace("WHOM", "one"))
    with Session(Limits()) as other:
        assert other.run(PRELUDE).error == ""
        assert probe(other, seen) == []
        other_uid = probe(other, code.replace("WHOM", "another"))
        assert probe(session, seen) == ["/tmp/of-one", "/dev/shm/of-one"]
    if os.geteuid():
        assert {uid, other_uid} == {os.geteuid()}
    else:
        assert uid != other_uid
        assert min(uid, other_uid) >= 1_900_000_000


def test_jax_runs_on_eight_devices_in_a_box(session):
    code = """
from coursekit import setup
setup.with_devices(8)
import jax, jax.numpy as jnp
total = jax.pmap(lambda x: jax.lax.psum(x, "d"), "d")(jnp.arange(8.0))
tell([jax.device_count(), float(total[0])])
"""
    assert probe(session, code) == [8, 28.0]


# Limits, in boxes without a kernel.


def test_address_space_is_limited(contained_here):
    code = "tell(tried(lambda: len(bytearray(700 * 2**20))))"
    assert bare(code, Limits(address_mib=600)).stdout == '"MemoryError"\n'


def test_processes_are_limited(contained_here):
    code = """
made = []
def fork():
    while len(made) < 60:
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
        made.append(writing)
tell([tried(fork), len(made)])
"""
    outcome, made = json.loads(bare(code, Limits(processes=20)).stdout)
    assert outcome == "BlockingIOError"
    assert made < 20


def test_threads_are_limited(contained_here):
    code = """
stop = threading.Event()
def start():
    for _ in range(60):
        threading.Thread(target=stop.wait, daemon=True).start()
tell(tried(start))
stop.set()
"""
    assert bare(code, Limits(processes=20)).stdout == '"RuntimeError"\n'


def test_file_handles_are_limited(contained_here):
    code = "tell(tried(lambda: [os.dup(0) for _ in range(100)]))"
    assert bare(code, Limits(open_files=64)).stdout == '"OSError"\n'


def test_limits_cannot_be_raised(contained_here):
    code = """
import resource
names = ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_NPROC", "RLIMIT_NOFILE", "RLIMIT_FSIZE")
def more(name):
    hard = resource.getrlimit(getattr(resource, name))[1]
    resource.setrlimit(getattr(resource, name), (hard, hard + 1))
tell([tried(more, name) for name in names])
"""
    assert set(json.loads(bare(code).stdout)) <= {"ValueError", "PermissionError"}


def test_processor_time_is_limited(contained_here):
    run = bare("while True: pass", Limits(cpu_s=1))
    assert run.returncode in (128 + 24, 128 + 9)  # SIGXCPU, or SIGKILL after it


@pytest.mark.parametrize("folder, most", [("/tmp", 8), ("/dev/shm", 4)])
def test_disk_is_limited(contained_here, folder, most):
    code = f"""
written = 0
def fill():
    global written
    for number in range(40):
        with open(f"{folder}/{{number}}", "wb", buffering=0) as file:
            written += file.write(bytes(2**20))
tell([tried(fill), written // 2**20])
"""
    outcome, written = json.loads(bare(code, Limits(disk_mib=8)).stdout)
    assert outcome == "OSError" or written < 40
    assert written <= most


def test_the_size_of_a_file_is_limited(contained_here):
    code = """
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
tell(tried(lambda: os.truncate(os.open("/tmp/x", os.O_CREAT | os.O_RDWR), 9 * 2**20)))
"""
    assert bare(code, Limits(disk_mib=8)).stdout == '"OSError"\n'


# Where nothing contains: no containment is claimed.


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A PATH that holds nothing but what a test writes there."""
    monkeypatch.setenv("PATH", str(tmp_path))
    backend.cache_clear()
    yield (
        lambda name, text: (
            (tmp_path / name).write_text(text) and os.chmod(tmp_path / name, 0o755)
        )
    )
    backend.cache_clear()


def test_without_any_containment_the_refusal_names_what_was_tried(programs):
    with pytest.raises(ContainmentError) as refusal:
        backend()
    for words in ("bwrap", "docker", "podman"):
        assert f"{words} is not installed" in str(refusal.value)
    assert "apt install bubblewrap" in str(refusal.value)
    assert "--trusted" in str(refusal.value)


def test_refused_user_namespaces_are_explained(programs):
    said = "bwrap: setting up uid map: Permission denied"
    programs("bwrap", f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    with pytest.raises(ContainmentError) as refusal:
        backend()
    assert said in str(refusal.value)
    assert "kernel.apparmor_restrict_unprivileged_userns=0" in str(refusal.value)


def test_files_that_only_root_can_read_are_explained(programs, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    said = "can't open file '/box_init.py': [Errno 13] Permission denied"
    programs("bwrap", f'#!/bin/sh\necho "{said}" >&2\nexit 2\n')
    with pytest.raises(ContainmentError, match="every user must be able to read"):
        backend()


def test_a_program_that_contains_nothing_is_refused(programs):
    programs("bwrap", "#!/bin/sh\nexit 0\n")
    with pytest.raises(ContainmentError, match="exit status 0"):
        backend()


def test_an_engine_without_its_daemon_is_refused_with_its_words(programs):
    programs("docker", "#!/bin/sh\necho 'Cannot connect to the daemon' >&2\nexit 1\n")
    with pytest.raises(ContainmentError, match="Cannot connect to the daemon"):
        backend()


def test_a_course_inside_of_pythons_folder_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(ROOT))
    with pytest.raises(ContainmentError, match="move it"):
        contained(["true"], Box(), "bubblewrap")


def test_a_course_among_the_systems_folders_is_refused(monkeypatch):
    monkeypatch.setattr(box, "ROOT", Path("/usr/src/course"))
    with pytest.raises(ContainmentError, match="is in /usr, which"):
        contained(["true"], Box(), "bubblewrap")


def test_an_unknown_machine_is_refused(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "vax")
    with pytest.raises(SystemExit, match="vax"):
        box_init.install_seccomp_filter()


@pytest.mark.parametrize("machine", box_init.MACHINES)
def test_the_filters_steps_stay_within_it(machine):
    steps = box_init.seccomp_filter(machine)
    for at, (_, if_true, if_false, _) in enumerate(steps):
        assert at + 1 + max(if_true, if_false) < len(steps) or at == len(steps) - 1
    assert steps[-1][0] == box_init.RETURN


# Docker and Podman.


def engine_words(program, uid, monkeypatch, **more):
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(os, "getegid", lambda: uid)
    return docker.engine(program, ["python", "x.py"], Box(**more))


@pytest.mark.parametrize("program", ["docker", "podman"])
@pytest.mark.parametrize("uid", [0, 1000])
def test_an_engines_command_line_contains(program, uid, monkeypatch):
    words = engine_words(program, uid, monkeypatch, env={"COLOUR": "blue"})
    limits = Limits()
    assert words[:2] == [program, "run"]
    asked = words[: words.index(docker.IMAGE)]
    assert {
        "--rm",
        "--interactive",
        "--pull=never",
        "--read-only",
        "--network=none",
        "--cap-drop=ALL",
        "--security-opt=no-new-privileges",
        "--log-driver=none",
        f"--memory={limits.memory_mib}m",
        f"--memory-swap={limits.memory_mib}m",
        f"--pids-limit={limits.processes}",
        f"--shm-size={limits.disk_mib // 2}m",
    } <= set(asked)
    assert not {"--privileged", "--init", "--env", "--pid=host"} & set(asked)
    user = next(word for word in asked if word.startswith("--user="))
    assert not user.startswith("--user=0")
    assert "0" not in user.removeprefix("--user=").split(":")
    volumes = [b for a, b in itertools.pairwise(asked) if a == "--volume"]
    assert all(volume.endswith(":ro") for volume in volumes)
    assert not any(volume.startswith(f"{ROOT}:") for volume in volumes)
    inside = words[words.index(docker.IMAGE) + 1 :]
    assert inside[:2] == ["/usr/bin/env", "-i"]
    assert "COLOUR=blue" in inside
    assert inside[-4:] == ["-S", box.BOX_INIT, "python", "x.py"]


def test_one_users_boxes_do_not_count_each_others_processes(monkeypatch):
    words = engine_words("docker", 1000, monkeypatch)
    assert not any(word.startswith("--nproc") for word in words)


@pytest.mark.parametrize("uid, has", [(0, False), (1000, True)])
def test_podman_maps_an_ordinary_user_to_itself(uid, has, monkeypatch):
    words = engine_words("podman", uid, monkeypatch)
    assert ("--userns=keep-id" in words) == has


def test_containers_have_names_and_users_of_their_own(monkeypatch):
    one, two = (engine_words("docker", 0, monkeypatch) for _ in range(2))
    for start in ("--name=", "--user="):
        both = [next(w for w in words if w.startswith(start)) for words in (one, two)]
        assert both[0] != both[1]


@pytest.fixture(params=["docker", "podman"])
def running_engine(request):
    """Skips, naming the reason, where the engine does not run."""
    program = request.param
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    info = subprocess.run([program, "info"], capture_output=True, text=True, timeout=60)
    if info.returncode:
        pytest.skip(f"{program} does not run: {info.stderr.strip()[-200:]}")
    return program


def test_an_engine_contains(running_engine, host):
    assert backend_module.probe(running_engine) == ""
    code = f"""
tell([os.getuid(), os.path.exists({str(host.folder)!r}), tried(write, "/usr/new"),
    tried(write, "/tmp/new"), [name for _, name in socket.if_nameindex()],
    tried(text, "/proc/1/environ"), tried(os.kill, 1, 9),
    tried(os.memfd_create, "x"), os.statvfs("/tmp").f_blocks * 4096])
"""
    words = [sys.executable, "-I", "-S", "-c", PRELUDE + code]
    command = contained(words, Box(Limits(disk_mib=8)), running_engine)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        uid, sees, system, own, interfaces, environment, _, memory, disk = json.loads(
            process.stdout.readline()
        )
    assert uid != 0
    assert not sees
    assert (system, own) == ("OSError", "written")
    assert interfaces == ["lo"]
    assert environment == "PermissionError"
    assert memory == "PermissionError"
    assert disk == 8 * 2**20


def test_an_engine_ends_its_box_when_the_input_closes(running_engine):
    words = [sys.executable, "-I", "-S", "-c", "print('in', flush=True); input()"]
    command = contained(["sh", "-c", '"$@" & wait; cat', "sh", *words], Box(), "docker")
    command[0] = running_engine
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "in\n"
        process.stdin.close()
        assert process.wait(timeout=60) != 0


# An ordinary user.

CORE = (
    "containment/test_backend.py",
    "kernel/test_session.py::test_the_end_of_the_grader_ends_its_boxes",
    "kernel/test_session.py::test_memory_of_all_processes_together_is_limited",
    "kernel/test_session.py::test_the_number_of_files_is_limited",
    "kernel/test_session.py::test_the_number_of_sockets_is_limited",
)


@pytest.mark.skipif(os.geteuid() != 0, reason="this user is an ordinary one already")
def test_an_ordinary_users_boxes_contain_as_well(contained_here, tmp_path):
    # Python may lie under /root and the course be readable for root alone, so this user
    # gets a view of the machine with both at readable places.
    copy = tmp_path / "course"
    for name in ("grader", "lessons", "tests", "pyproject.toml"):
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("hostile", "__pycache__")
            shutil.copytree(source, copy / name, ignore=ignored)
        else:
            shutil.copy(source, copy / name)
    (copy / "solutions").mkdir()  # which tests/conftest.py names
    subprocess.run(["chmod", "-R", "a+rX", str(copy)], check=True)
    words = ["bwrap", "--die-with-parent", "--dev-bind", "/", "/"]
    for top in ("/root", "/home", "/tmp"):
        if Path(top).is_dir():
            words += ["--perms", "1777", "--tmpfs", top]
    for path in python_folders():
        for folder in reversed(path.parents):
            if not os.path.exists(folder) or str(folder).count("/") > 1:
                words += ["--perms", "0755", "--dir", str(folder)]
        words += ["--ro-bind", str(path), str(path)]
    words += ["--dir", "/tmp/its", "--ro-bind", str(copy), "/tmp/its"]
    words += ["--setenv", "HOME", "/tmp", "--setenv", "PYTHONDONTWRITEBYTECODE", "1"]
    words += ["--chdir", "/tmp/its", "--", "setpriv", "--reuid=12345", "--regid=12345"]
    words += ["--clear-groups", sys.executable, "-m", "pytest", "-q", "-rs"]
    words += ["-k", "not jax and not engine"]
    words += ["-p", "no:cacheprovider", *(f"tests/{name}" for name in CORE)]
    run = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-1000:]
    assert "contain untrusted" not in run.stdout  # nothing was skipped for that reason
