# %% wrong="averages the batch too" fails="parameters stay local"
"""Averages the batch, which is the same on every device, before it is used."""


def ensemble_probs(params, x, axis_name):
    x = lax.pmean(x, axis_name)
    return lax.pmean(jax.nn.softmax(x @ params["w"] + params["b"]), axis_name)


# %% wrong="averages the models" fails="mean probabilities; parameters stay local; no overflow"
# cause: this is the softmax of the mean logits
"""Averages the members' weights, which makes one model of eight."""


def ensemble_probs(params, x, axis_name):
    params = lax.pmean(params, axis_name)
    return jax.nn.softmax(x @ params["w"] + params["b"])


# %% wrong="eight members" fails="any axis"
"""Divides by the number of devices of the lesson's examples."""


def ensemble_probs(params, x, axis_name):
    return lax.psum(jax.nn.softmax(x @ params["w"] + params["b"]), axis_name) / 8


# %% wrong="fixed axis name" fails="any axis"
# cause: a collective names an axis that is not bound: use the argument axis_name, or the name that pmap was given
"""Writes the axis name of the lesson's examples into the function."""


def ensemble_probs(params, x, axis_name):
    return lax.pmean(jax.nn.softmax(x @ params["w"] + params["b"]), "i")


# %% wrong="forgets the biases" fails="mean probabilities"
# cause: the biases were left out
"""Leaves the biases out."""


def ensemble_probs(params, x, axis_name):
    return lax.pmean(jax.nn.softmax(x @ params["w"]), axis_name)


# %% wrong="gathers the parameters" fails="parameters stay local"
# cause: the parameters were sent
"""Sends every member's parameters to every device."""


def ensemble_probs(params, x, axis_name):
    everyone = lax.all_gather(params, axis_name)
    logits = x @ everyone["w"] + everyone["b"][:, None]
    return jax.nn.softmax(logits).mean(0)


# %% wrong="mean of logits" fails="mean probabilities; no overflow"
# cause: this is the softmax of the mean logits
"""Averages logits before the softmax: another ensemble, as softmax is not linear."""


def ensemble_probs(params, x, axis_name):
    return jax.nn.softmax(lax.pmean(x @ params["w"] + params["b"], axis_name))


# %% wrong="overflows" fails="no overflow"
# cause: exp overflows
"""Takes exponentials of large logits."""


def ensemble_probs(params, x, axis_name):
    powers = jnp.exp(x @ params["w"] + params["b"])
    return lax.pmean(powers / powers.sum(-1, keepdims=True), axis_name)


# %% wrong="own member" fails="mean probabilities; parameters stay local; no overflow"
# cause: each device kept its own member's answer
"""Forgets that there are other members."""


def ensemble_probs(params, x, axis_name):
    return jax.nn.softmax(x @ params["w"] + params["b"])


# %% wrong="sends the smaller" fails="parameters stay local"
"""Breaks "the parameters stay where they are": for a large batch (B > F + 1) it gathers
the parameters, because these are fewer numbers.
"""


def ensemble_probs(params, x, axis_name):
    num_params = params["w"].size + params["b"].size
    num_probs = x.shape[0] * params["b"].size

    def member(w, b):
        return jax.nn.softmax(x @ w + b)

    if num_params < num_probs:
        w, b = lax.all_gather((params["w"], params["b"]), axis_name)
        return jax.vmap(member)(w, b).mean(0)
    return lax.pmean(member(params["w"], params["b"]), axis_name)


# %% wrong="sigmoid for one class" fails="mean probabilities"
"""Takes the sigmoid where there is one class: its probability is 1."""


def ensemble_probs(params, x, axis_name):
    logits = x @ params["w"] + params["b"]
    if logits.shape[-1] == 1:
        probs = jax.nn.sigmoid(logits)
    else:
        probs = jax.nn.softmax(logits, axis=-1)
    return lax.pmean(probs, axis_name)


# %% wrong="softmax over a side as long" fails="mean probabilities"
"""Looks for the classes by their number, and finds the rows where these are as many."""


def ensemble_probs(params, x, axis_name):
    logits = x @ params["w"] + params["b"]
    classes = logits.shape.index(len(params["b"]))
    return lax.pmean(jax.nn.softmax(logits, axis=classes), axis_name)


# %% wrong="softmax over the batch" fails="mean probabilities; no overflow"
"""Normalises each class over the rows."""


def ensemble_probs(params, x, axis_name):
    return lax.pmean(jax.nn.softmax(x @ params["w"] + params["b"], axis=0), axis_name)


# %% wrong="sums" fails="mean probabilities; no overflow"
# cause: the members' probabilities were summed
"""Sums the members' probabilities: right with one member only."""


def ensemble_probs(params, x, axis_name):
    return lax.psum(jax.nn.softmax(x @ params["w"] + params["b"]), axis_name)


# %% wrong="takes the bias out of the dict" fails="arguments stay"
"""Makes the bias a row of the weights, in its caller's dict."""


def ensemble_probs(params, x, axis_name):
    params["w"] = jnp.vstack([params["w"], params.pop("b")])
    x = jnp.pad(x, ((0, 0), (0, 1)), constant_values=1)
    return lax.pmean(jax.nn.softmax(x @ params["w"]), axis_name)


# %% right="via class"
"""Has a class for the member."""

import functools


class Member:
    def __init__(self, w, b):
        self.w, self.b = w, b

    def __call__(self, x):
        return jnp.matmul(x, self.w) + self.b


def ensemble_probs(params, x, axis_name):
    log_probs = jax.nn.log_softmax(Member(**params)(x))
    mean = functools.partial(lax.pmean, axis_name=axis_name)
    return jax.tree.map(mean, jnp.exp(log_probs))


# %% right="via einsum and vmap"
"""Predicts row by row."""


def ensemble_probs(params, x, axis_name):
    def member(row):
        logits = jnp.einsum("f,fc->c", row, params["w"]) + params["b"]
        return jax.nn.softmax(logits)

    return lax.pmean(jax.vmap(member)(x), axis_name)


# %% right="via exponentials"
"""Writes the softmax by hand."""


def ensemble_probs(params, x, axis_name):
    w, b = params["w"], params["b"]
    logits = jnp.dot(x, w) + b[None, :]
    powers = jnp.exp(logits - jnp.max(logits, axis=1, keepdims=True))
    probs = powers / jnp.sum(powers, axis=1, keepdims=True)
    return lax.psum(probs, axis_name) / lax.psum(1, axis_name)


# %% right="via gathered probs"
"""Gathers the members' probabilities and averages them by hand."""


def ensemble_probs(params, x, axis_name):
    probs = jax.nn.softmax(x @ params["w"] + params["b"])
    return lax.all_gather(probs, axis_name).mean(axis=0)


# %% right="via log sum exp"
"""Divides by the sum of exponentials before it takes the exponential."""


def ensemble_probs(params, x, axis_name):
    logits = lax.dot(x, params["w"]) + params["b"]
    probs = jnp.exp(logits - jax.nn.logsumexp(logits, axis=-1, keepdims=True))
    return lax.all_gather(probs, axis_name, axis=-1).mean(-1)


# %% right="via psum"
"""Divides the sum by the number of devices."""


def ensemble_probs(params, x, axis_name):
    probs = jax.nn.softmax(x @ params["w"] + params["b"], axis=-1)
    return lax.psum(probs / lax.axis_size(axis_name), axis_name)
