# make demo   both planes and fake providers on loopback: an answer and a picture, with their bill
# make test   the tests            make lint   ruff            make types   mypy
# make bench  the benchmark, in five minutes (ARGS=quick: a short form, in ten seconds)
# make soak   random runs of both planes under faults, in a simulated world (ARGS="--minutes 30",
#             ARGS="--runs 10000 --first 2000", or ARGS="--seed 123" to see one again)
# make screenshots  takes the pictures of the dashboard for docs/ anew (wants chromium)
# make look   a month of a company that does not exist, behind a dashboard on loopback
# make man    writes the pages of the manual anew, out of the help of the commands and docs/
# make kills  real planes killed 200 times under load, and then the sums (ARGS=1000: as often)
# make fuzz-admin  the admin API asked by schemathesis (ARGS=1000: so many examples of each call)
# make observe  etc/grafana.json and etc/alerts.yml out of what they are made of
# make install-check  docs/operations.md, block by block, on a fresh Debian that is booted in a folder
#             (as root, with debootstrap and systemd-container; ARGS=--verbose shows what is said)
#                                  make clean  remove what these targets made
#
# Everything runs from .venv, which the first target that needs it makes. Another Python:
# make demo PYTHON=python3.12. Arguments of the program: make demo ARGS=--once,
# make test ARGS=tests.wire.

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
BIN = $(VENV)/bin
READY = $(VENV)/.ready
# twistd finds the plugins of a checkout through the path, however the package is installed.
RUN = PYTHONPATH="$(CURDIR)" $(BIN)/python

.PHONY: demo test lint types bench soak kills fuzz-admin screenshots look man observe install-check clean venv

demo: $(READY)
	@$(RUN) -m omnigate.cli demo $(ARGS)

test: $(READY)
	$(RUN) -m $(if $(ARGS),twisted.trial $(ARGS),tests)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

bench: $(READY)
	$(RUN) -m bench $(ARGS)

soak: $(READY)
	@$(RUN) -m tests.simulation $(ARGS)

kills: $(READY)
	OMNIGATE_TEST_KILLS=$(or $(ARGS),200) $(RUN) -m twisted.trial tests.process.test_ledger_kills

screenshots: $(READY)
	@$(RUN) -m tests.browser.screenshots

look: $(READY)
	@$(RUN) -m tests.browser.seeding $(ARGS)

man: $(READY)
	@$(RUN) -m manual

fuzz-admin: $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --config-settings editable_mode=compat -e '.[fuzz]'
	@$(RUN) -m tests.process.fuzz_admin $(or $(ARGS),200)

observe: $(READY)
	$(RUN) -m tests.observe

install-check: $(READY)
	@$(RUN) -m tests.install $(ARGS)

clean:
	rm -rf $(VENV) build dist *.egg-info _trial_temp* .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -f twisted/plugins/dropin.cache

venv: $(READY)

# Editable in compat mode: only then does twistd see the plugins without a PYTHONPATH too.
$(READY): setup.cfg pyproject.toml
	@command -v $(PYTHON) >/dev/null || { \
	  echo "make: there is no $(PYTHON) here; install Python 3.11 or newer," \
	    "on Debian: apt-get install python3 python3-venv" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make: $$($(PYTHON) --version) is too old, omnigate needs 3.11 or newer;" \
	    "name one with: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "make: $(PYTHON) cannot make virtual environments;" \
	    "on Debian: apt-get install python3-venv" >&2; exit 1; }
	@echo "Making $(VENV) and installing what omnigate needs; this is done once."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --config-settings editable_mode=compat -e '.[dev]'
	@touch $@
