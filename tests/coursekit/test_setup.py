"""The set-up cell gives the right devices, or one sentence that says what to do."""

import os
import re
import shutil
import subprocess
import sys
import types
import zipfile
from pathlib import Path

import jax
import pytest

from coursekit import setup
from coursekit.context import current_context
from coursekit.environment import FAST_COMPILE_FLAGS
from coursekit.setup import SetupError, check_devices, check_jax, check_python

LESSONS = Path(setup.__file__).resolve().parents[1]
FAST = " ".join(FAST_COMPILE_FLAGS)
EIGHT = "--xla_force_host_platform_device_count=8"
FOUR = "--xla_force_host_platform_device_count=4"
NOTE = (
    "Your shell asked for 4 devices; this notebook uses 8."
    " To silence this line, unset XLA_FLAGS or JAX_NUM_CPU_DEVICES there."
)
START = "from coursekit import setup; setup.with_devices(8)"
OTHER_VERSION = (
    "This notebook was made for another version of the folder coursekit. Where a check"
    " fails oddly, take your answers into a new copy of the lesson."
)
READY = "Ready: 8 simulated CPU devices."
GPU = types.SimpleNamespace(platform="gpu")
CPU = types.SimpleNamespace(platform="cpu")


def run_child(program, **variables):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("XLA_", "JAX_"))}
    env |= {"PYTHONPATH": str(LESSONS), **variables}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=env, capture_output=True, text=True)


@pytest.fixture
def platforms(monkeypatch):
    """Lets a test name a platform in the environment; JAX itself keeps its devices."""
    for name in ("XLA_FLAGS", "NPROC", "PJRT_NPROC"):
        monkeypatch.setenv(name, os.environ[name])
    yield lambda text: monkeypatch.setenv("JAX_PLATFORMS", text)
    jax.config.update("jax_platforms", "cpu")


@pytest.mark.parametrize("version", [(3, 11), (3, 12), (3, 13), (3, 14)])
def test_a_supported_python_passes(version):
    check_python(version)


@pytest.mark.parametrize("version", [(3, 10), (3, 15), (4, 0)])
def test_another_python_gets_the_remedy(version):
    with pytest.raises(SetupError) as error:
        check_python(version)
    assert str(error.value) == (
        f"This is Python {version[0]}.{version[1]}; the course needs 3.11 to"
        " 3.14. Use one of these (in JupyterLab: Kernel > Change Kernel)."
    )


@pytest.mark.parametrize(
    "version", ["0.7.2", "0.7.2.dev1", "0.8.0rc1", "0.10.2", "0.12.0.1", "1.0"]
)
def test_a_supported_jax_passes(version):
    check_jax(version)


@pytest.mark.parametrize("version", ["0.4.38", "0.6.2", "0.7.1", "0.7"])
def test_an_older_jax_gets_the_remedy(version):
    with pytest.raises(SetupError) as error:
        check_jax(version)
    assert str(error.value) == (
        f"This is JAX {version}; the course needs 0.7.2 or newer. "
        'Run `pip install "jax>=0.7.2"`, then restart the kernel.'
    )


@pytest.mark.parametrize("device", [CPU, GPU], ids=["cpu", "gpu"])
def test_the_right_number_of_devices_passes(device):
    check_devices([device] * 8, 8)


def test_one_device_of_a_platform_that_was_asked_for_gets_the_remedy(platforms):
    platforms("cuda")
    with pytest.raises(SetupError) as error:
        check_devices([GPU], 8)
    assert str(error.value) == (
        "JAX_PLATFORMS=cuda gives 1 device; this notebook needs several."
        " Unset JAX_PLATFORMS to simulate 8."
    )


@pytest.mark.parametrize("number", [2, 4, 16])
def test_other_numbers_of_real_devices_are_taken_and_multiply_in_full(
    platforms, capsys, monkeypatch, number
):
    platforms("cuda,cpu")
    monkeypatch.setattr(jax, "devices", lambda: [GPU] * number)
    before = jax.config.jax_default_matmul_precision
    try:
        setup.with_devices(8)
        assert jax.config.jax_default_matmul_precision == "highest"
    finally:
        jax.config.update("jax_default_matmul_precision", before)
    assert capsys.readouterr().out.splitlines() == [
        f"Ready: {number} GPU devices.",
        "The text speaks of 8 devices. Lessons 1 to 3 run on these; 4 and 5 need 8:"
        " unset JAX_PLATFORMS, which simulates them.",
    ]


def test_simulated_devices_keep_their_precision(platforms):
    before = jax.config.jax_default_matmul_precision
    setup.with_devices(8)
    assert jax.config.jax_default_matmul_precision == before


def test_a_gpu_that_jax_took_before_the_cell_ran_asks_for_a_restart(platforms):
    platforms("cpu")  # what `with_devices` sets where nothing was set
    with pytest.raises(SetupError, match="Restart the kernel"):
        check_devices([GPU], 8)


def test_colab_is_told_where_its_restart_is(monkeypatch):
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("colab"))
    with pytest.raises(SetupError) as error:
        check_devices([CPU], 8)
    assert "Restart the session (Runtime > Restart session)" in str(error.value)


def test_a_platform_in_the_environment_is_kept(platforms, capsys):
    platforms("cuda,cpu")
    setup.with_devices(8)
    assert os.environ["JAX_PLATFORMS"] == jax.config.jax_platforms == "cuda,cpu"
    assert capsys.readouterr().out == "Ready: 8 CPU devices.\n"


def test_colab_always_simulates(platforms, capsys, monkeypatch):
    platforms("tpu,cpu")
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("colab"))
    setup.with_devices(8)
    assert os.environ["JAX_PLATFORMS"] == jax.config.jax_platforms == "cpu"
    assert capsys.readouterr().out == f"{READY}\n"


def test_the_set_up_cell_says_whose_checks_run_and_how_points_are_given(platforms):
    setup.with_devices(8, lesson="02_collectives", partial_credit=False)
    found = current_context()
    assert (found.lesson, found.partial_credit) == ("02_collectives", False)
    setup.with_devices(8)
    assert (found.lesson, found.partial_credit) == ("", True)


def test_running_the_set_up_cell_again_says_ready_again(platforms, capsys):
    setup.with_devices(8)
    assert capsys.readouterr().out == f"{READY}\n"


def test_another_number_in_a_started_kernel_asks_for_a_restart(platforms):
    with pytest.raises(SetupError, match=r"already started with 8 device\(s\)"):
        setup.with_devices(4)


def test_a_count_from_the_shell_is_overruled_with_a_note():
    program = f"{START}; import jax; print(len(jax.devices()))"
    child = run_child(program, XLA_FLAGS=FOUR, JAX_NUM_CPU_DEVICES="4")
    assert child.stdout.splitlines() == [NOTE, READY, "8"], child.stderr


def test_other_flags_from_the_shell_stay_and_a_wrong_count_goes():
    level = "--xla_backend_optimization_level=1"
    program = f"{START}; print(setup.os.environ['XLA_FLAGS'])"
    child = run_child(program, XLA_FLAGS=f"{level} {FOUR}")
    others = " ".join(FAST_COMPILE_FLAGS[1:])
    expected = [NOTE, READY, f"{level} {others} {EIGHT}"]
    assert child.stdout.splitlines() == expected, child.stderr


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ("--xla_no_such_flag=1", "--xla_no_such_flag=1"),
        (f"--xla_one {FOUR} --xla_two=2", "--xla_one --xla_two=2"),
        ("--no_flag_of_xla", "--no_flag_of_xla"),
        ("--xla_cpu_enable_fast_math=maybe", "xla_cpu_enable_fast_math"),
        ("flags.txt", "flags.txt"),
    ],
    ids="unknown several foreign value file".split(),
)
def test_a_flag_that_xla_refuses_is_named_and_ends_no_kernel(flags, named):
    program = f"try:\n    {START}\nexcept Exception as error:\n    print(error)"
    child = run_child(program, XLA_FLAGS=flags)
    assert (child.returncode, child.stderr) == (0, "")
    assert child.stdout.splitlines() == [
        f"XLA refuses {named} in XLA_FLAGS, and would end this kernel without a"
        " message. Remove it from XLA_FLAGS in your shell, then start Jupyter again."
    ]


@pytest.mark.parametrize("value", ["1", "true", "on"])
def test_jit_that_is_off_is_named_before_any_check_waits_for_it(value):
    program = f"try:\n    {START}\nexcept Exception as error:\n    print(error)"
    child = run_child(program, JAX_DISABLE_JIT=value)
    assert (child.returncode, child.stderr) == (0, "")
    assert child.stdout.startswith("JAX_DISABLE_JIT is set, so JAX would compile noth")
    assert "Unset it in your shell" in child.stdout


def test_flags_that_the_grader_sets_start_no_second_process(platforms, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", f"{FAST} {EIGHT}")
    monkeypatch.delattr(subprocess, "run")
    setup.with_devices(8)


@pytest.mark.parametrize(
    ("variables", "blamed"),
    [
        ({"JAX_PLATFORM_NAME": "gpu"}, "JAX_PLATFORM_NAME=gpu"),
        ({"JAX_PLATFORM_NAME": "tpu", "JAX_PLATFORMS": "cpu"}, "JAX_PLATFORM_NAME=tpu"),
        ({"JAX_PLATFORM_NAME": "gpu", "JAX_PLATFORMS": "rocm"}, "JAX_PLATFORMS=rocm"),
        ({"JAX_PLATFORMS": "cuda"}, "JAX_PLATFORMS=cuda"),
    ],
    ids="name name-beside-cpu platforms-beside-name platforms".split(),
)
def test_the_variable_that_asks_for_a_missing_device_is_named(variables, blamed):
    child = run_child(START, **variables)
    name = blamed.partition("=")[0]
    assert child.stderr.splitlines()[-1] == (
        f"coursekit.setup.SetupError: {blamed}, but this machine or this JAX has no"
        f" such device. Unset {name} to simulate devices on the CPU."
    )


def test_a_notebook_made_for_this_version_is_told_nothing(platforms, capsys):
    setup.with_devices(8, made_for=setup.version())
    assert capsys.readouterr().out == f"{READY}\n"


def test_a_notebook_made_for_another_version_is_told_so_in_one_line(platforms, capsys):
    setup.with_devices(8, made_for="0123456789ab")
    assert capsys.readouterr().out.splitlines() == [READY, OTHER_VERSION]


def version_in(place):
    """The version that the package in a folder or an archive says that it is."""
    child = run_child(
        "from coursekit import setup; print(setup.version(), setup.__file__)",
        PYTHONPATH=str(place),
    )
    version, path = child.stdout.split(maxsplit=1)
    assert path.startswith(str(place)), child.stderr
    return version


@pytest.fixture
def package(tmp_path):
    """A copy of the package, to be changed."""
    ignored = shutil.ignore_patterns("__pycache__")
    return shutil.copytree(
        LESSONS / "coursekit", tmp_path / "coursekit", ignore=ignored
    )


def test_version_is_short_and_the_same_in_each_process(package):
    assert re.fullmatch("[0-9a-f]{12}", setup.version())
    assert version_in(package.parent) == setup.version()


@pytest.mark.parametrize(
    "name", ["setup.py", "draw/array.py", "draw/new.py", "checks/__init__.py"]
)
def test_version_changes_with_every_module(package, name):
    with (package / name).open("a", encoding="utf-8") as file:
        file.write("# changed\n")
    assert version_in(package.parent) != setup.version()


def test_version_stays_with_other_checks_and_with_the_solutions_for_colab(package):
    (package / "checks" / "01_tiny.py").write_text("# changed\n", encoding="utf-8")
    (package / "solutions" / "checks").mkdir(parents=True)
    for path in ("01_tiny.py", "checks/01_tiny.py"):
        (package / "solutions" / path).write_text("# new\n", encoding="utf-8")
    assert version_in(package.parent) == setup.version()


def test_version_stays_with_other_words_and_with_what_python_compiles(package):
    with (package / "messages_ko.py").open("a", encoding="utf-8") as file:
        file.write("# changed\n")
    (package / "messages_xx.py").write_text("MESSAGES = {}\n", encoding="utf-8")
    (package / "draw" / "__pycache__").mkdir()
    (package / "draw" / "__pycache__" / "array.cpython-311.pyc").write_bytes(b"\0")
    assert version_in(package.parent) == setup.version()


def test_version_in_an_archive_is_that_of_the_folder(package, tmp_path):
    path = tmp_path / "kit.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for module in package.rglob("*.py"):
            archive.write(module, module.relative_to(tmp_path))
    assert version_in(path) == setup.version()


def test_jax_started_before_the_cell_asks_for_a_restart():
    child = run_child(f"import jax; jax.devices(); {START}")
    assert child.stdout == ""
    assert child.stderr.splitlines()[-1] == (
        "coursekit.setup.SetupError: JAX had already started with 1 device(s) before"
        " this cell ran, and the number is fixed from then on. Restart the kernel"
        " (Kernel > Restart Kernel) and run this cell first."
    )
