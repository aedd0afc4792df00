# Set-up: run this cell first. It gives this notebook its devices and its checks.
import os, sys, urllib.request

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
if "google.colab" in sys.modules or "KAGGLE_KERNEL_RUN_TYPE" in os.environ:  # fetch the course
    sys.path += [urllib.request.urlretrieve("COURSEKIT_URL", "course.zip")[0] + "/COURSEKIT_FOLDER"]
sys.path += ["..", "../lessons"]
from coursekit import setup  # not found? Put this notebook into the folder lessons/.

setup.with_devices(8, lesson="COURSE_LESSON", made_for="COURSEKIT_VERSION")
import jax
import jax.numpy as jnp
import numpy as np
from coursekit.notebook import COURSE_NAMES
