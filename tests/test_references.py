"""The reference programs run as scripts and agree with one device."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

REFERENCES = Path(__file__).resolve().parent.parent / "solutions" / "references"


@pytest.fixture(scope="module")
def pmap_spmd():
    path = REFERENCES / "pmap_spmd.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_map_keeps_the_device_axis(pmap_spmd):
    x, y = pmap_spmd.map_over_devices(4)
    assert y.shape == (4, 2)
    assert len(y.addressable_shards) == 4
    np.testing.assert_allclose(y, x**2 + np.sin(x), rtol=1e-5)


def test_batch_is_cut_in_order(pmap_spmd):
    images = np.arange(128 * 784).reshape(128, 784)
    blocks = pmap_spmd.shard_images(images, 8)
    assert blocks.shape == (8, 16, 784)
    np.testing.assert_array_equal(blocks[1, 0], images[16])


def test_each_replica_is_what_one_device_would_train_alone(pmap_spmd):
    rng = np.random.default_rng(0)
    x, y = np.float32(rng.normal(size=(4, 8, 3))), np.float32(rng.normal(size=(4, 8)))
    params = pmap_spmd.train_apart(x, y, num_steps=20)
    for device in range(4):
        w, b = np.zeros(3), 0.0
        for _ in range(20):
            error = np.float64(x[device]) @ w + b - y[device]
            w, b = w - 0.2 * error @ x[device] / 8, b - 0.2 * error.mean()
        np.testing.assert_allclose(params["w"][device], w, atol=1e-5)
        np.testing.assert_allclose(params["b"][device], b, atol=1e-5)


def test_script_shows_four_devices_and_their_drift():
    script = [sys.executable, str(REFERENCES / "pmap_spmd.py")]
    printed = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    assert "map: (4, 2) -> (4, 2) on 4 devices" in printed
    slopes = printed.splitlines()[-1].split(":")[1].split()
    assert len(set(slopes)) == 4
