# Set-up: run this cell first. It gives this notebook its devices and its checks.
import importlib.util
import sys
import urllib.request

if importlib.util.find_spec("google") and importlib.util.find_spec("google.colab"):
    for name in "COURSE_MODULES":
        urllib.request.urlretrieve(f"COURSE_FILES/{name}.py", f"{name}.py")
sys.path += ["..", "../lessons"]  # where the modules are, seen from other folders
if not importlib.util.find_spec("start"):
    raise ModuleNotFoundError("Put this notebook beside start.py, in lessons/.")

import start

start.with_devices(8)  # XLA_FLAGS=--xla_force_host_platform_device_count=8

import jax
import jax.numpy as jnp
import numpy as np
import viz
from expect import *
from expect_program import *
from observe import observe
from outcomes import check, scorecard
from tracing import collectives
