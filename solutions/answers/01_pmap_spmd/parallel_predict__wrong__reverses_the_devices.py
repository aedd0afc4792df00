"""Numbers the devices from the last to the first.

Told: none
Fails: row d on device d
"""


def parallel_predict(params, x):
    devices = jax.devices()[: len(x)][::-1]
    return jax.pmap(predict, in_axes=(None, 0), devices=devices)(params, x)
