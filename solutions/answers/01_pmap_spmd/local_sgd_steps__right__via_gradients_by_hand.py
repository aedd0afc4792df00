"""Writes the gradient out, and passes lr to the devices as an argument."""


def local_sgd_steps(params, x, y, lr, num_steps):
    def take(params, x, y, lr):
        w, b = params["w"], params["b"]
        for _ in range(num_steps):
            error = jnp.dot(x, w) + b - y
            w, b = w - lr * 2 * (error @ x) / len(y), b - lr * 2 * error.mean()
        return {"w": w, "b": b}

    return jax.pmap(take, in_axes=(0, 0, 0, None))(params, x, y, lr)


def replica_spread(params):
    flat = [np.reshape(leaf, (len(leaf), -1)) for leaf in jax.tree.leaves(params)]
    rows = np.concatenate(flat, axis=1)
    return np.max(np.abs(rows - rows.mean(0)))
