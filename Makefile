# The first of the Pythons $(3) that is a Python 3.$(1) to 3.$(2).
find_python = $(shell for p in $(3); do $$p -c 'import sys; \
	sys.exit(not (3, $(1)) <= sys.version_info[:2] <= (3, $(2)))' 2>/dev/null \
	&& { echo $$p; break; }; done)
PYTHONS = python3 python3.14 python3.13 python3.12 python3.11
# `make lab PYTHON=python3.12` chooses another one.
PYTHON := $(call find_python,11,14,$(PYTHONS))
# The oldest JAX and Matplotlib have no packages for Python 3.14; the newest JAX needs 3.12.
OLDER_PYTHON := $(call find_python,11,13,$(PYTHON) $(PYTHONS))
NEWER_PYTHON := $(call find_python,12,14,$(PYTHONS) \
	$(foreach v,14 13 12,$(wildcard $(HOME)/.pyenv/versions/3.$(v)*/bin/python)))
LEARNERS_TESTS = tests/coursekit tests/lessons solutions

.PHONY: lab test test-slow test-all build check grade site test-oldest test-newest \
	test-references has-newer-python lock

lab: .venv/ready
	@.venv/bin/python -m grader lab $(if $(PORT),--port $(PORT))

# So many files side by side (or classes: a lesson's answers are one). Slow tests wait, for
# time limits and browsers: with three, two cores still have enough to do.
SIDE_BY_SIDE = --dist loadscope --no-loadscope-reorder -n
TESTS = .venv/bin/python -m pytest --ignore=tests/references $(SIDE_BY_SIDE)

# tests/conftest.py says which tests are slow.
test: .venv/with-tests
	$(TESTS) 2 -m "not slow" tests

test-slow: .venv/with-tests
	$(TESTS) 3 -m slow

test-all: test test-slow

build: .venv/ready
	.venv/bin/python -m grader build

check: .venv/with-tests
	.venv/bin/python -m grader build --check
	PYTHONPATH=lessons .venv/bin/lint-imports
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .

grade: .venv/ready
	@.venv/bin/python -m grader check $(if $(NAME),--name "$(NAME)")

site: .venv/with-tests
	@.venv/bin/python -m tools.website

# The lessons and the learner's modules on the oldest JAX, and on Colab's IPython.
test-oldest: .venv-oldest/ready
	ANSWERS=oldest .venv-oldest/bin/python -m pytest $(SIDE_BY_SIDE) 3 $(LEARNERS_TESTS)

test-newest: .venv-newest/ready
	ANSWERS=newest .venv-newest/bin/python -m pytest $(SIDE_BY_SIDE) 3 $(LEARNERS_TESTS)

# The whole programs, with the libraries that they are written in: on the locked JAX.
test-references: .venv-references/ready
	KERAS_BACKEND=jax .venv-references/bin/python -c "import flax, keras, rich"
	.venv-references/bin/python -m pytest $(SIDE_BY_SIDE) 3 tests/references

# Is there a Python for test-newest, other than the one that `make test` uses?
has-newer-python:
	@test -n "$(NEWER_PYTHON)" -a "$(NEWER_PYTHON)" != "$(PYTHON)"

lock:
	uv pip compile --quiet --universal --python-version 3.11 --extra cluster \
		--extra postgresql pyproject.toml --output-file requirements.txt
	uv pip compile --quiet --universal --python-version 3.11 --extra cluster \
		--extra postgresql --group test --constraint requirements.txt \
		pyproject.toml --output-file tests/requirements.txt
	uv pip compile --quiet --universal --python-version 3.11 --group oldest \
		--output-file tests/oldest-requirements.txt
	uv pip compile --quiet --universal --python-version 3.11 --group test \
		--extra references --constraint tests/requirements.txt pyproject.toml \
		--output-file tests/references/requirements.txt

# An environment is made from nothing whenever its lock is newer than it; by uv, which
# takes a third of pip's time, and by pip where uv does not find its way to the packages.
.venv/ready: requirements.txt
	$(call make_environment,$(PYTHON),3.11 to 3.14)

# What tests, checks and the website need more is added when they are first asked for.
.venv/with-tests: .venv/ready tests/requirements.txt
	@echo "Adding what tests need to .venv from tests/requirements.txt."
	$(call install,.venv/bin,tests/requirements.txt)
	@touch $@

.venv-oldest/ready: tests/oldest-requirements.txt
	$(call make_environment,$(OLDER_PYTHON),3.11 to 3.13)

.venv-newest/ready: tests/requirements.txt
	$(call make_environment,$(NEWER_PYTHON),3.12 to 3.14)

.venv-references/ready: tests/references/requirements.txt
	$(call make_environment,$(PYTHON),3.11 to 3.14)

define make_environment
	@test -n "$(1)" || { echo "No Python $(2) was found. Install one" \
		"or name it: make lab PYTHON=/path/to/python3.12"; exit 1; }
	@test "$(call find_python,11,14,$(1))" || { echo "$(1) is `$(1) --version`; this" \
		"course needs Python 3.11 to 3.14. Name one: make lab" \
		"PYTHON=/path/to/python3.12"; exit 1; }
	@echo "Setting up $(@D) from $< (a minute or more)."
	@$(1) -m venv --clear $(@D) || { echo "Python's venv module is missing: on Debian" \
		"and Ubuntu, sudo apt install python3-venv"; exit 1; }
	@# So `python -m grader` works in every folder.
	@echo "$(CURDIR)" > "`$(@D)/bin/python -c 'import sysconfig as s; \
		print(s.get_path("purelib"))'`/course.pth"
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(call install,$(@D)/bin,$<)
	@touch $@
endef

define install
	@$(1)/uv pip install --quiet --compile-bytecode --python $(1)/python -r $(2) \
		|| $(1)/python -m pip install --quiet --disable-pip-version-check -r $(2)
endef
