"""The first lesson as a script shows four devices that drift apart."""

import numpy as np
import pytest


@pytest.fixture(scope="module")
def pmap_spmd(load):
    return load("pmap_spmd")


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


def test_script_shows_four_devices_and_their_drift(run):
    printed = run("pmap_spmd")
    assert "map: (4, 2) -> (4, 2) on 4 devices" in printed
    slopes = printed[-1].split(":")[1].split()
    assert len(set(slopes)) == 4


def test_script_takes_as_many_devices_as_it_is_told(run):
    printed = run("pmap_spmd", "--devices", "2", "--steps", "3")
    assert "map: (2, 2) -> (2, 2) on 2 devices" in printed
    assert len(printed[-1].split(":")[1].split()) == 2
