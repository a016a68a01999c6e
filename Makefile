# make install, make demo, make test: everything a fresh machine with Python and make needs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
KERNELS := $(VENV)/triton

# a module is compiled when it is first imported, once: most of those that are installed never are
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install demo test check format lint types tests kernels bench report clean

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[dev]'
	touch $@

demo: install
	$(BIN)/bertvision demo

test: install check

# types and kernels are checked while tests run: the one has no use for a second core, the others wait now and then
check: format lint
	$(MAKE) --jobs=2 types tests kernels

format: install
	$(BIN)/ruff format --check .

lint: install
	$(BIN)/ruff check .

types: install
	$(BIN)/mypy

tests: install
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses auto --dist loadfile --cov --cov-fail-under=95

# where there is no GPU, by the interpreter of a Triton that is kept apart: torch wants one of its own
kernels: $(KERNELS)
	PYTHONPATH=$(KERNELS) TRITON_INTERPRET=1 OMP_NUM_THREADS=1 $(BIN)/pytest \
		tests/unit/heads/parts/test_adapted.py tests/unit/heads/parts/test_mixtures.py \
		tests/unit/heads/parts/test_window_attention.py tests/unit/heads/parts/test_compile_kernels.py

$(KERNELS): $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --target $@ "triton; sys_platform == 'linux'"
	touch $@

bench: install
	@echo "timings are ratios measured side by side; leave the machine alone meanwhile"
	for script in bench/bench_*.py; do $(BIN)/python $$script || exit 1; done
	$(BIN)/python bench/table.py

report: install
	$(BIN)/python bench/table.py

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage
