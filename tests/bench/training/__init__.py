"""One training step, three ways: the template's, a plain Keras script's, a plain PyTorch script's."""
