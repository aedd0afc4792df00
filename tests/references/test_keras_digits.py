"""The Keras model trains on eight devices as it does on one."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import numpy as np
import pytest

keras = pytest.importorskip("keras", reason="the model needs Keras")
pytestmark = pytest.mark.usefixtures("usual_promotion")


@pytest.fixture(scope="module")
def program(load):
    return load("keras_digits")


@pytest.fixture(scope="module")
def data(program):
    images, labels = program.load_data()[0]
    return images[:256], labels[:256]


def train(program, data, num_devices):
    """Takes four steps from one start; returns the model and its losses."""
    keras.utils.set_random_seed(0)
    model = program.make_model()
    return model, program.train(model, data, program.make_mesh(num_devices), 2, 128)


@pytest.fixture(scope="module")
def split(usual_promotion, program, data):
    return train(program, data, num_devices=8)


def test_equals_one_device_with_dropout_and_batch_norm(program, data, split):
    alone, losses = train(program, data, num_devices=1)
    np.testing.assert_allclose(split[1], losses, atol=1e-4)
    for many, one in zip(split[0].variables, alone.variables, strict=True):
        np.testing.assert_allclose(many.value, one.value, atol=1e-3)


def test_weights_are_written_back(program, split):
    keras.utils.set_random_seed(0)
    for before, after in zip(
        program.make_model().variables, split[0].variables, strict=True
    ):
        assert (before.value != after.value).any(), after.path


def test_script_trains(run):
    pytest.importorskip("rich", reason="JAX draws layouts with rich")
    printed = run("keras_digits", "--epochs", "1")
    assert printed[0] == "global batch: 8 x 64 = 512"
    assert printed[-2].startswith("epoch  1  loss")
    assert printed[-1].startswith("accuracy on 261 test digits")
