"""Environments that people make for themselves, each a kernel: one model behind command, REST and the Lab."""
