"""Functions that `joblane.testing` composes too: settings and clients in, services out."""
