"""A mesh over several slices: the slow links between them carry the axis "data"."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

REFERENCES = Path(__file__).resolve().parents[2] / "solutions" / "references"
sys.path.append(str(REFERENCES))
pytest.importorskip("orbax.checkpoint")

import pipeline_step
from pipeline_step import Config, RunError


def devices(*sizes):
    """Stand-ins of GPUs: so many in each slice, each slice in a process of its own."""
    return [
        SimpleNamespace(
            id=100 * slice_index + n,
            slice_index=slice_index,
            process_index=slice_index,
            platform="gpu",
            device_kind="NVIDIA H100 80GB HBM3",
        )
        for slice_index, size in enumerate(sizes)
        for n in range(size)
    ]


@pytest.mark.parametrize(
    ("mesh", "num_slices"),
    [
        ({"data": 8}, 2),
        ({"data": 2, "model": 4}, 2),
        ({"data": 4, "model": 2}, 2),
        ({"data": 8, "model": 1}, 4),
    ],
    ids=str,
)
def test_the_axis_model_stays_within_a_slice(mesh, num_slices, monkeypatch):
    there = devices(*[8 // num_slices] * num_slices)[::-1]
    monkeypatch.setattr(pipeline_step, "Mesh", lambda arranged, *_, **more: arranged)
    arranged = pipeline_step.make_mesh(Config("unused", mesh=mesh), there)
    assert arranged.shape == (mesh["data"], mesh.get("model", 1))
    slices = np.vectorize(lambda device: device.slice_index)(arranged)
    assert (slices == slices[:, :1]).all()
    changes = np.count_nonzero(np.diff(slices[:, 0]))
    assert changes == num_slices - 1  # rows of a slice are neighbours
    assert len({device.id for device in arranged.flat}) == 8


@pytest.mark.parametrize(
    ("mesh", "sizes"),
    [({"data": 1, "model": 8}, (4, 4)), ({"data": 6}, (4, 4)), ({"data": 8}, (5, 3))],
    ids=str,
)
def test_a_mesh_that_would_send_activations_over_slow_links_is_refused(mesh, sizes):
    with pytest.raises(RunError, match="a multiple of 2 along data"):
        pipeline_step.make_mesh(Config("unused", mesh=mesh), devices(*sizes))


# Devices of the CPU carry no slices: each process stands for one.
SLICED = """
import functools, sys
sys.path.append({references!r})
import full_pipeline, pipeline_step
pipeline_step.slice_of = lambda device: device.process_index
pipeline_step.mesh_utils.create_hybrid_device_mesh = functools.partial(
    pipeline_step.mesh_utils.create_hybrid_device_mesh, process_is_granule=True
)
sys.exit(full_pipeline.main())
"""


def test_the_page_s_slurm_line_trains_as_two_processes_in_two_slices(tmp_path):
    page = (REFERENCES.parents[1] / "docs" / "clusters.md").read_text()
    start = page.index("full_pipeline.py \\\n    --cluster") + len("full_pipeline.py ")
    line = page[start : page.index("\n```", start)].replace("\\\n", " ").split()
    line[line.index("--directory") + 1] = str(tmp_path / "run")
    names = ("nodes", "gpus-per-node")
    nodes, gpus = (int(re.search(rf"SBATCH --{n}=(\d+)", page)[1]) for n in names)
    assert line[line.index("--mesh") + 1] == f"data={nodes * gpus}"
    (script := tmp_path / "script.py").write_text(
        SLICED.format(references=str(REFERENCES))
    )
    command = [sys.executable, str(script), *line, "--num-steps=40", "--hidden=32"]
    env = {k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS",)}
    env |= {"XLA_FLAGS": f"--xla_force_host_platform_device_count={gpus}"}
    env |= {"JAX_PLATFORMS": "cpu", "SLURM_NTASKS": str(nodes), "SLURM_JOB_ID": "77123"}
    env |= {"SLURM_STEP_NODELIST": "localhost", "NPROC": "32", "PJRT_NPROC": "32"}
    children = [
        subprocess.Popen(
            command,
            env=env | {"SLURM_PROCID": str(n), "SLURM_LOCALID": str(n)},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for n in range(nodes)
    ]
    try:
        said = [child.communicate(timeout=400) for child in children]
    finally:
        for child in children:
            child.kill()
    assert [child.returncode for child in children] == [0] * nodes, said
    assert "on 8 simulated CPU devices, 2 processes" in said[0][0]
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 40


def test_a_cluster_without_a_jax_for_its_chips_is_refused(tmp_path):
    script = [sys.executable, str(REFERENCES / "full_pipeline.py"), "--cluster"]
    names = ("XLA_FLAGS", "JAX_PLATFORMS")
    env = {k: v for k, v in os.environ.items() if k not in names}
    env |= {"SLURM_JOB_ID": "77124", "SLURM_STEP_NODELIST": "localhost"}
    env |= {"SLURM_NTASKS": "1", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
    done = subprocess.run(
        [*script, "--directory", str(tmp_path / "run")],
        env=env,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 2
    assert "finds only CPUs" in done.stderr and "JAX_PLATFORMS=cpu" in done.stderr
    assert not (tmp_path / "run").exists()
