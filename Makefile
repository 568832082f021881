PYTHON ?= python3
BIN = .venv/bin
INSTALL = $(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt
# By all cores, where pip takes one; files for a later Python than this one fail.
COMPILE = $(BIN)/python -m compileall -qq -j 0 -x /tests/ .venv/lib || true

.PHONY: demo test lint format docs architecture bench soak compat compat-lowest compat-newest wheel clean

demo: .venv/run.stamp  ## learn a newsvendor's orders, compare them with others, draw a picture
	$(BIN)/python examples/newsvendor.py

test: .venv/dev.stamp  ## every test, and every example in the docs
	$(BIN)/python -m pytest --numprocesses logical --maxprocesses 4 --dist worksteal

lint: .venv/dev.stamp  ## linter, formatter's check, types, one-way layers, spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --config setup.cfg
	$(BIN)/codespell

format: .venv/dev.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: .venv/dev.stamp  ## the site, in docs/_build; a warning is an error
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going docs docs/_build

architecture: .venv/dev.stamp  ## redraw docs/architecture.svg from the imports, and measure the package
	$(BIN)/python -m tests.architecture.drawing
	$(BIN)/python -m tests.architecture.measures

bench: .venv/dev.stamp  ## what is timed, as ratios in one run
	$(BIN)/python -m tests.benchmarks.startup
	$(BIN)/python -m tests.benchmarks.building
	$(BIN)/python -m tests.benchmarks.oracle
	$(BIN)/python -m tests.benchmarks.growth
	$(BIN)/python -m tests.benchmarks.fitting
	$(BIN)/python -m tests.benchmarks.speedup
	$(BIN)/python examples/paper/run.py all --quick

soak: .venv/dev.stamp  ## what takes long: kills, drift, hostile files, with figures
	$(BIN)/python -m tests.reliability.soak

compat: compat-lowest compat-newest  ## the tests with the oldest versions, and the newest

compat-lowest: CONSTRAINTS = constraints-lowest.txt
compat-newest: CONSTRAINTS = constraints.txt
compat-lowest compat-newest:
	test -x build/$@/bin/python || $(PYTHON) -m venv build/$@
	build/$@/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager \
		--constraint $(CONSTRAINTS) --editable .[test,dask,mpi]
	build/$@/bin/python -m pytest --numprocesses logical --maxprocesses 4 --dist worksteal

wheel: .venv/dev.stamp  ## build it, install it where nothing else is, and run the docs' code there
	rm -rf build
	$(BIN)/python -m build --outdir build/dist
	$(PYTHON) -m venv build/empty
	build/empty/bin/python -m pip install --quiet --constraint constraints.txt \
		"$$(echo build/dist/*.whl)[plots,parquet,mpi]" POT
	cd build && empty/bin/python -c 'import pyomo_csg as csg; print(csg.__version__)'
	cd build && empty/bin/pyomo-csg --help
	cd build && empty/bin/pyomo-csg check "$$(ls empty/lib/python*/site-packages/pyomo_csg/cli/assets/model.py)"
	mkdir build/pages && cp -r README.md docs build/pages
	rm build/pages/docs/every_morning.md  # its data come from another project, by examples/
	cd build/pages && for page in README.md docs/*.md; do \
		../empty/bin/python -m doctest -o NORMALIZE_WHITESPACE -o ELLIPSIS $$page || exit 1; \
	done

clean:
	rm -rf .venv build docs/_build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/run.stamp: setup.cfg constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) --editable .[plots]
	$(COMPILE)
	touch $@

.venv/dev.stamp: setup.cfg constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) --editable .[dev]
	$(COMPILE)
	touch $@ .venv/run.stamp
