# Set-up: run this cell first. It gives this notebook its devices and its checks.
import importlib.util
import urllib.request

if importlib.util.find_spec("google") and importlib.util.find_spec("google.colab"):
    for name in ("start", "facts", "observe", "outcomes", "expect", "viz"):
        urllib.request.urlretrieve(f"COURSE_FILES/{name}.py", f"{name}.py")
if not importlib.util.find_spec("start"):
    raise ModuleNotFoundError("Open this notebook in the folder that holds start.py.")

import start

start.with_devices(8)  # XLA_FLAGS=--xla_force_host_platform_device_count=8

import jax
import jax.numpy as jnp
import numpy as np
import viz
from expect import *
from observe import observe
from outcomes import check, scorecard
