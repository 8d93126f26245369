# The two commands of the README: `make demo` and `make test`. Everything else is a part of them.
SHELL := /bin/sh
PORT ?= 8000
DEMO := deploy/demo/demo
export PORT

.PHONY: help audit bench check setup environments demo demo-up free-port demo-down demo-doctor demo-shell demo-clean clean test test-faults test-security test-notebooks test-notebooks-browser test-templates

help:
	@echo 'make demo        a Slurm cluster of four nodes, LDAP and the portal on port $(PORT); Ctrl-C stops it'
	@echo 'make demo-up     the same in the background;  make demo-down stops it'
	@echo 'make environments ALL=1  PyTorch, JAX, MXNet, inference and Horovod too: the next start of the demo offers their kernels'
	@echo 'make demo-shell  a login shell inside (sinfo, squeue, sbatch as the demo user alice)'
	@echo 'make demo-doctor the portal looks at its own installation there'
	@echo 'make demo-clean  takes the state folder .demo away; make clean takes .venv too'
	@echo 'make bench       the portal beside the stock parts, in figures; needs root and an idle machine'
	@echo 'make audit       known vulnerabilities, licences and a list of all parts (SBOM) of what is installed'
	@echo 'make check       lint, types and unit tests: three minutes, without a cluster and without a network'
	@echo 'make test        lint, types and all tests (TESTS="unit hub" runs only these rings)'
	@echo 'make test-faults the fault suite and a simulated day, about an hour (docs/howto/fault-suite.md)'
	@echo 'make test-security  what hostile people try, alone: the ring security of make test'
	@echo 'make test-notebooks  every notebook template on its own kernel in a Slurm job, in long form, and a table of them'
	@echo 'make test-notebooks-browser  the same as a person does it: in a browser, with their own values, about an hour'

setup:
	@/usr/bin/python3 deploy/setup.py

environments: setup
	@/usr/bin/python3 deploy/environments/build.py $(if $(ALL),--all) --cm .demo/cm --pip "$$(/usr/bin/python3 deploy/setup.py --print-pip)"
	@$(if $(ALL),/usr/bin/python3 deploy/environments/horovod.py --cm .demo/cm --pip "$$(/usr/bin/python3 deploy/setup.py --print-pip)")

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
	@rm -rf .venv .test-artefacts

bench:
	@/usr/bin/python3 deploy/setup.py --dev
	@for name in queries spawn storm restart; do .venv/bin/portal bench $$name || exit 1; echo; done

audit: setup
	@/usr/bin/python3 deploy/run_module.py deploy.environments.audit

check:
	@/usr/bin/python3 tests/run.py lint unit

test:
	@/usr/bin/python3 tests/run.py $(TESTS)

test-faults:
	@/usr/bin/python3 tests/run.py --long simulation faults

test-security:
	@/usr/bin/python3 tests/run.py security

test-notebooks:
	@/usr/bin/python3 tests/run.py --long notebooks

test-notebooks-browser:
	@/usr/bin/python3 tests/run.py notebooks_in_browser

test-templates:
	@/usr/bin/python3 tests/run.py templates
