# The two commands of the README: `make demo` and `make test`. Everything else is a part of them.
SHELL := /bin/sh
PORT ?= 8000
DEMO = $(FIRST) deploy/demo/demo
export PORT
# The Python of the portal: a path, a name or a version such as 3.13; not given = that of before, else the system's.
ifeq ($(origin PYTHON),command line)
export DSPORTAL_PYTHON := $(PYTHON)
endif
# The driver of the database, postgresql or mariadb, where it is no file (portal.database_url); later runs keep it.
ifeq ($(origin DATABASE),command line)
export DSPORTAL_DATABASE := $(DATABASE)
endif
# What reads the first lines of a command: any Python 3 does, the command itself goes on in the one that fits.
FIRST := $(firstword $(wildcard /usr/bin/python3 /usr/libexec/platform-python) $(PYTHON) python3)

.PHONY: help audit bench dist check setup environments demo demo-up free-port demo-down demo-doctor demo-shell demo-clean clean test test-long test-faults test-security test-directories test-newcomer test-notebooks test-notebooks-browser test-templates test-front-doors test-systems test-debian test-databases

help:
	@echo 'make setup       the portal in .venv; PYTHON=3.13 (or a path) chooses its Python, 3.11 to 3.14'
	@echo '                 DATABASE=postgresql or mariadb: with the driver of such a database; without it a file of SQLite'
	@echo 'make demo        a Slurm cluster of four nodes, LDAP and the portal on port $(PORT); Ctrl-C stops it'
	@echo 'make demo-up     the same in the background;  make demo-down stops it'
	@echo 'make environments ALL=1  PyTorch, JAX, MXNet, inference, Dask, Ray, Horovod, an editor and an image trainer too: the next start of the demo offers them'
	@echo 'make environments GPU=1  the environments for nodes with NVIDIA GPUs (docs/howto/kernels.md): 13 GB to fetch'
	@echo 'make demo-shell  a login shell inside (sinfo, squeue, sbatch as the demo user alice)'
	@echo 'make demo-doctor the portal looks at its own installation there'
	@echo 'make demo-clean  takes the state folder .demo away; make clean takes .venv too'
	@echo 'make bench       the portal beside the stock parts, in figures; needs root and an idle machine'
	@echo 'make audit       known vulnerabilities, licences and a list of all parts (SBOM) of what is installed'
	@echo 'make dist        the release: a tarball that installs without a checkout and without a network'
	@echo 'make check       lint, types and unit tests: three minutes, without a cluster and without a network'
	@echo 'make test        lint, types and all tests (TESTS="unit hub" runs only these rings)'
	@echo 'make test-long   every test of these rings, also those of their long forms, some hours; TESTS=session is one ring'
	@echo 'make test-faults the fault suite and a simulated day, about an hour (docs/howto/fault-suite.md)'
	@echo 'make test-databases  the portal on real PostgreSQL and MariaDB servers, which are killed and kept away, half an hour'
	@echo 'make test-security  what hostile people try, in long form'
	@echo 'make test-directories  logins on servers of other makers: Active Directory (Samba), 389-ds, OpenID Connect, PAM'
	@echo 'make test-front-doors  nginx, Apache and Traefik before the portal, as docs/howto/reverse-proxy.md has them'
	@echo 'make test-debian  contract, directory, session and hub on a whole Debian 13: Slurm 24.11, Python 3.13 (docs/howto/systems.md)'
	@echo 'make test-newcomer  the demo, and on a fresh clone, as an ordinary user, every test in a browser; half an hour'
	@echo 'make test-notebooks  every notebook template on its own kernel in a Slurm job, in long form, and a table of them'
	@echo 'make test-systems  the installation guide to the letter on bare Debian 12 and 13, under a real systemd; needs root'
	@echo 'make test-notebooks-browser  the same as a person does it: in a browser, with their own values, about an hour'

setup:
	@$(FIRST) deploy/setup.py

environments: setup
	@$(FIRST) deploy/environments/build.py $(if $(ALL),--all) $(if $(GPU),--gpu) --cm .demo/cm --pip "$$($(FIRST) deploy/setup.py --print-pip)"
	@$(if $(ALL),$(FIRST) deploy/environments/horovod.py --cm .demo/cm --pip "$$($(FIRST) deploy/setup.py --print-pip)")

demo: free-port environments
	@$(DEMO) run

demo-up: free-port environments
	@$(DEMO) up

free-port:
	@$(DEMO) check

demo-doctor:
	@$(DEMO) exec --user portal -- $(CURDIR)/.venv/bin/portal doctor --site /etc/dsportal/site.toml

demo-down:
	@$(DEMO) down

demo-shell:
	@$(DEMO) shell

demo-clean:
	@$(DEMO) clean

clean: demo-clean
	@echo 'Removing .venv …'
	@rm -rf .venv .venv-debian* .test-artefacts .setup.lock

bench:
	@$(FIRST) deploy/setup.py --dev
	@for name in queries spawn storm restart kernels tensorboard form forecasts; do .venv/bin/portal bench $$name || exit 1; echo; done

audit: setup
	@$(FIRST) deploy/run_module.py deploy.environments.audit

dist: setup
	@$(FIRST) deploy/run_module.py deploy.release.make_dist

check:
	@$(FIRST) tests/run.py lint unit

test:
	@$(FIRST) tests/run.py $(TESTS)

test-long:
	@$(FIRST) tests/run.py --long $(TESTS)

test-faults:
	@$(FIRST) tests/run.py --long simulation faults

test-databases:
	@$(FIRST) tests/run.py databases

test-security:
	@$(FIRST) tests/run.py --long security

test-directories:
	@$(FIRST) tests/run.py directories

test-front-doors:
	@$(FIRST) tests/run.py front_doors

test-debian:
	@DSPORTAL_DEBIAN=$(or $(DEBIAN),13) $(FIRST) tests/run.py $(TESTS)

test-newcomer:
	@$(FIRST) tests/run.py --long demo

test-notebooks:
	@$(FIRST) tests/run.py --long notebooks

test-notebooks-browser:
	@$(FIRST) tests/run.py notebooks_in_browser

test-systems:
	@$(FIRST) tests/run.py systems

test-templates:
	@$(FIRST) tests/run.py templates
