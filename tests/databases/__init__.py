"""The portal on real database servers: a named run (`make test-databases`), not one of `make test`."""
