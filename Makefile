# fuseplan. `make help` prints the targets.
#
#   BUILD      build directory (build)
#   CUDA_HOME  CUDA toolkit; found by itself where it stands in the usual places. Without its headers
#              the program still plans, emits CUDA and looks up.
#   SAN=1      AddressSanitizer + UndefinedBehaviorSanitizer (use another BUILD)
#   V=1        prints whole compiler commands
#   PREFIX     where `make install` puts things (/usr/local), below DESTDIR

BUILD ?= build
SHELL := /bin/bash
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif
Q := $(if $(V),,@)
CUDA_HOME ?= $(firstword $(patsubst %/include/cuda.h,%,$(wildcard \
  /usr/local/cuda/include/cuda.h /opt/cuda/include/cuda.h /usr/lib/cuda/include/cuda.h)))
CUDA_HEADERS := cuda.h cupti.h cublasLt.h
HAS_CUDA := $(if $(filter 3,$(words $(wildcard $(CUDA_HEADERS:%=$(CUDA_HOME)/include/%)))),yes,)
VERSION := 0.1.0
PREFIX ?= /usr/local

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wvla -Werror
CFLAGS ?= -O2 -g
ALL_CFLAGS = -std=c11 $(WARNINGS) $(CFLAGS) $(if $(SAN),-fsanitize=address$(comma)undefined \
  -fno-sanitize-recover=all -fno-omit-frame-pointer) -I. -MMD -MP
comma := ,
LIBS := -l:libsqlite3.a -l:libyaml.a -l:libjansson.a -l:libmd.a -ldl -lm -lpthread

# Position-independent for the shared library, in which fuseplan.h alone is visible.
ALL_CFLAGS += -fPIC -fvisibility=hidden

# Files that need the toolkit's headers, and what stands in for them without.
CUDA_SOURCES := $(wildcard tuner/launch/driver.c tuner/launch/maps.c tuner/launch/loaded.c \
  tuner/launch/resident.c tuner/measure/gpu.c tuner/measure/inputs.c tuner/measure/probe.c \
  tuner/measure/sample_*.c tuner/measure/verify_cuda.c tuner/measure/baseline_cublaslt.c \
  tuner/measure/baseline_cudnn.c tuner/measure/baseline_pair.c \
  tuner/measure/worker.c)
NO_CUDA_SOURCES := $(wildcard tuner/*/*_none.c tuner/*/*_absent.c)
FPL_SOURCES := $(filter-out $(if $(HAS_CUDA),$(NO_CUDA_SOURCES),$(CUDA_SOURCES)), \
  $(wildcard tuner/base/*.c tuner/core/*.c costmodel/*.c codegen/*.c tuner/search/*.c \
  tuner/launch/*.c tuner/measure/*.c tuner/lib/*.c db/*.c))
CLI_SOURCES := $(wildcard tuner/cli/*.c)
GENERATED := $(BUILD)/gen/skeleton_files.c $(BUILD)/gen/migrations.c
FPL_OBJECTS := $(FPL_SOURCES:%.c=$(BUILD)/obj/%.o) $(GENERATED:.c=.o)
CLI_OBJECTS := $(CLI_SOURCES:%.c=$(BUILD)/obj/%.o) $(BUILD)/gen/page_files.o
CUDA_INCLUDE := $(if $(HAS_CUDA),-isystem $(CUDA_HOME)/include)
# Not with sanitizers: p_skeleton is NVRTC at work, which is not ours to check.
TESTS := $(patsubst tests/%.c,$(BUILD)/tests/%,$(filter-out $(if $(SAN),tests/prop/p_skeleton.c), \
  $(wildcard tests/unit/t_*.c tests/prop/p_*.c)))
FAKES := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/fakes/*.c)) \
  $(if $(HAS_CUDA),$(BUILD)/tests/fakes/libcuda.so.1)
CUDA_TESTS := tests/gpu/gpu_launches.c tests/gpu/gpu_accuracy.c
GPU_TESTS := $(patsubst tests/%.c,$(BUILD)/tests/%,$(filter-out \
  $(if $(HAS_CUDA),,$(CUDA_TESTS)),$(wildcard tests/gpu/*.c)))
CHAOS := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/chaos/*.c))
FUZZERS := $(patsubst tests/fuzz/%.c,$(BUILD)/tests/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 18

.DEFAULT_GOAL := build

.PHONY: build
build: $(BUILD)/fuseplan $(BUILD)/plans.db $(BUILD)/libfuseplan.so $(BUILD)/libfuseplan.a ## the program, its plans and the C library, in $(BUILD)

# The system database: what lookups find below the user's own.
PLAN_FILES := $(wildcard profiles/plans/*.jsonl)
$(BUILD)/plans.db: $(BUILD)/fuseplan $(PLAN_FILES)
	@echo "import $(PLAN_FILES)"
	@rm -f $@ $@.part
	$(Q)for file in $(PLAN_FILES); do $(BUILD)/fuseplan import $$file --db $@.part >/dev/null || exit 1; done
	$(Q)mv $@.part $@

# What a machine lacks is installed by tools/setup.sh, which says what it does. One at a time.
$(BUILD)/.setup-%: tools/setup.sh
	@mkdir -p $(BUILD)
	@tools/setup.sh $*
	@touch $@
# A machine that can have no browser skips the tests that need one.
$(BUILD)/.setup-browser: tools/setup.sh | $(BUILD)/.setup-test
	@tools/setup.sh browser || echo "setup: no browser: the tests that need one are skipped"
	@touch $@
$(BUILD)/.setup-test $(BUILD)/.setup-lint $(BUILD)/.setup-fuzz: | $(BUILD)/.setup-build

$(BUILD)/fuseplan: $(CLI_OBJECTS) $(BUILD)/libfpl.a
	@echo "link $@"
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/libfpl.a: $(FPL_OBJECTS)
	@rm -f $@
	$(Q)ar rcs $@ $^

# The C library: one object with all that it needs of ours and of the libraries linked in, in which
# the exported names alone are global, so that nothing clashes with a caller's own SQLite.
LIBRARY_SOURCES := $(wildcard tuner/lib/*.c)
$(BUILD)/gen/exported.txt: tuner/lib/fuseplan.map
	@mkdir -p $(@D)
	$(Q)grep -oE '\<fuseplan_[a-z_]+' $< > $@

$(BUILD)/libfuseplan.o: $(LIBRARY_SOURCES:%.c=$(BUILD)/obj/%.o) $(BUILD)/libfpl.a $(BUILD)/gen/exported.txt
	$(Q)$(CC) -r -nostdlib -o $@ $(filter %.o %.a,$^) $(filter -l:%,$(LIBS))
	$(Q)objcopy --keep-global-symbols=$(BUILD)/gen/exported.txt $@

$(BUILD)/libfuseplan.a: $(BUILD)/libfuseplan.o
	@echo "link $@"
	@rm -f $@
	$(Q)ar rcs $@ $<

SONAME := libfuseplan.so.$(firstword $(subst ., ,$(VERSION)))
$(BUILD)/libfuseplan.so: $(BUILD)/libfuseplan.o tuner/lib/fuseplan.map
	@echo "link $@.$(VERSION)"
	$(Q)$(CC) $(filter-out -MMD -MP,$(ALL_CFLAGS)) -shared -Wl,-soname,$(SONAME) \
	  -Wl,--version-script=tuner/lib/fuseplan.map -o $@.$(VERSION) $< $(filter-out -l:%,$(LIBS))
	@ln -sf $(@F).$(VERSION) $(BUILD)/$(SONAME)
	@ln -sf $(SONAME) $@

# A table of embedded files: its header, its name, and the files.
$(BUILD)/gen/skeleton_files.c: EMBED = codegen/files.h skeleton
$(BUILD)/gen/skeleton_files.c: $(shell find codegen/skeletons -name '*.cu*')
$(BUILD)/gen/page_files.c: EMBED = tuner/cli/page.h page
$(BUILD)/gen/page_files.c: $(wildcard tuner/cli/page/*)
$(BUILD)/gen/%_files.c: tools/embed-files.sh
	@mkdir -p $(@D)
	$(Q)tools/embed-files.sh $(EMBED) $(filter-out $<,$^) > $@.part && mv $@.part $@

$(BUILD)/gen/migrations.c: tools/embed-sql.sh $(wildcard db/sql/*.sql)
	@mkdir -p $(@D)
	$(Q)tools/embed-sql.sh $@ $(sort $(wildcard db/sql/*.sql))

$(BUILD)/gen/%.o: $(BUILD)/gen/%.c | $(BUILD)/.setup-build
	@echo "cc $<"
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<

$(BUILD)/obj/%.o: %.c | $(BUILD)/.setup-build
	@mkdir -p $(@D)
	@echo "cc $<"
	$(Q)$(CC) $(ALL_CFLAGS) $(CUDA_INCLUDE) -DFPL_VERSION='"$(VERSION)"' -c -o $@ $<

$(BUILD)/tests/%: tests/%.c $(BUILD)/libfpl.a | $(BUILD)/.setup-test
	@mkdir -p $(@D)
	@echo "cc $<"
	$(Q)$(CC) $(ALL_CFLAGS) $(CUDA_INCLUDE) -DFPL_BUILD='"$(BUILD)"' -o $@ $< \
	  $(BUILD)/libfpl.a $(LIBS) -lcmocka

$(BUILD)/tests/fakes/libcuda.so.1: $(wildcard tests/fakes/libcuda/*.[ch]) tuner/launch/driver.h
	@mkdir -p $(@D)
	@echo "link $@"
	$(Q)$(CC) $(filter-out -MMD -MP,$(ALL_CFLAGS)) $(CUDA_INCLUDE) -shared -Wl,-soname,libcuda.so.1 \
	  -o $@ $(filter %.c,$^)

$(BUILD)/tests/fuzz/%: tests/fuzz/%.c tests/fuzz/driver.c $(BUILD)/obj/tuner/cli/opts.o \
  $(BUILD)/libfpl.a
	@mkdir -p $(@D)
	@echo "cc $<"
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $^ $(LIBS)

# Every installed file below the prefix, so that `uninstall` removes what `install` has put there.
PROFILE_FILES := $(filter-out profiles/benchmarks/%,$(shell find profiles -type f))
INSTALLED := bin/fuseplan include/fuseplan.h lib/libfuseplan.a lib/libfuseplan.so lib/$(SONAME) \
  lib/libfuseplan.so.$(VERSION) lib/pkgconfig/fuseplan.pc share/man/man1/fuseplan.1 \
  share/man/man3/fuseplan.3 share/fuseplan/plans.db $(PROFILE_FILES:%=share/fuseplan/%)
TO := $(DESTDIR)$(PREFIX)

.PHONY: install
install: build ## program, library, header, profiles, man pages, below $(DESTDIR)$(PREFIX)
	@mkdir -p $(addprefix $(TO)/,$(sort $(dir $(INSTALLED))))
	install -m 755 $(BUILD)/fuseplan $(TO)/bin
	install -m 644 tuner/lib/fuseplan.h $(TO)/include
	install -m 644 $(BUILD)/libfuseplan.a $(BUILD)/libfuseplan.so.$(VERSION) $(TO)/lib
	cp -P $(BUILD)/libfuseplan.so $(BUILD)/$(SONAME) $(TO)/lib
	sed 's,@PREFIX@,$(PREFIX),; s,@VERSION@,$(VERSION),' tuner/lib/fuseplan.pc.in \
	  > $(TO)/lib/pkgconfig/fuseplan.pc
	install -m 644 tools/man/fuseplan.1 $(TO)/share/man/man1
	install -m 644 tools/man/fuseplan.3 $(TO)/share/man/man3
	install -m 644 $(BUILD)/plans.db $(TO)/share/fuseplan
	install -m 644 $(BUILD)/plans.db $(TO)/share/fuseplan
	@$(foreach f,$(PROFILE_FILES),install -m 644 $(f) $(TO)/share/fuseplan/$(f) &&) :

.PHONY: uninstall
uninstall: ## what `make install` has put there, and nothing else
	@rm -f $(addprefix $(TO)/,$(INSTALLED))
	@find $(TO)/share/fuseplan -depth -type d -empty -delete 2>/dev/null || :

.PHONY: run
run: build ## plan a real FFN: tune (on a GPU, else by model), store, look up
	@tools/run.sh $(BUILD)

.PHONY: test
test: $(BUILD)/.setup-test $(BUILD)/.setup-browser check ## all tests; the last line reads "N passed, N failed"

.PHONY: tests
tests: build $(TESTS) $(FAKES) $(FUZZERS) $(GPU_TESTS) $(CHAOS)

.PHONY: check
check: tests ## unit, property, golden, mutation, chaos (short), fuzz-corpus, kernel-compile, command-line, Python tests
	@BUILD=$(BUILD) CUDA_HOME=$(CUDA_HOME) CHAOS_KILLS=20 tests/run $(TESTS) $(CHAOS) tests/cli/*.bats tests/cli/install.sh \
	  tests/python/run.py tests/prop/mutation.sh tests/fuzz/run.sh tests/gpu/compile.sh tests/gpu/code.sh

.PHONY: check-unit
check-unit: tests ## unit and property tests and fuzz corpora alone
	@BUILD=$(BUILD) tests/run $(TESTS) tests/fuzz/run.sh

.PHONY: check-cli
check-cli: tests ## the command-line tests alone
	@BUILD=$(BUILD) tests/run tests/cli/*.bats tests/cli/install.sh

.PHONY: check-python
check-python: build $(FAKES) | $(BUILD)/.setup-test ## the Python package alone
	@BUILD=$(BUILD) tests/run tests/python/run.py

.PHONY: check-san
check-san: $(BUILD)/.setup-test ## unit tests and fuzz corpora under AddressSanitizer and UBSan
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/san SAN=1 CFLAGS="-O1 -g" check-unit

.PHONY: check-valgrind
check-valgrind: build $(BUILD)/.setup-test ## the command line under valgrind
	@BUILD=$(BUILD) tests/run tests/cli/valgrind.sh

.PHONY: check-db-chaos
check-db-chaos: build $(CHAOS) ## databases under crowds, kill -9, full disks, flipped bits (CHAOS_KILLS=, CHAOS_SEED=)
	@BUILD=$(BUILD) CHAOS_KILLS=$(CHAOS_KILLS) CHAOS_SEED=$(CHAOS_SEED) tests/run $(CHAOS)

.PHONY: check-fuzz
check-fuzz: tests ## each fuzz target over its corpus
	@BUILD=$(BUILD) tests/run tests/fuzz/run.sh

.PHONY: fuzz
fuzz: build $(BUILD)/.setup-fuzz ## libFuzzer by hand: make fuzz T=yaml SECONDS=600
	@BUILD=$(BUILD) tests/fuzz/live.sh "$(T)" $(or $(SECONDS),60)

.PHONY: check-kernels
check-kernels: $(BUILD)/.setup-test ## nvcc with warnings as errors over selfchecks and golden .cu (no GPU)
	@BUILD=$(BUILD) CUDA_HOME=$(CUDA_HOME) tests/run tests/gpu/compile.sh

.PHONY: check-gpu
check-gpu: tests ## on a GPU: verify candidates, long runs, errors, machine code, sanitizers, planted faults
	@BUILD=$(BUILD) CUDA_HOME=$(CUDA_HOME) tests/gpu/check.sh

.PHONY: bench-gpu
bench-gpu: build ## on a GPU: the benchmark, into profiles/benchmarks (pieces: PART=, ONLY=, see tools/bench/run.sh)
	@tools/bench/run.sh $(BUILD)

$(BUILD)/bench_lookup: tools/bench/lookup.c $(BUILD)/libfpl.a
	@echo "cc $<"
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $^ $(LIBS)

.PHONY: bench-lookup
bench-lookup: build $(BUILD)/bench_lookup ## lookup times over 100,000 generated plans, as one JSON line
	@$(BUILD)/bench_lookup $(BUILD)/fuseplan $(BUILD)

.PHONY: bench-show
bench-show: ## the benchmark's table and means, on any machine (JSON=FILE: of another file)
	@command -v python3 >/dev/null || tools/setup.sh bench
	@python3 tools/bench/show.py $(JSON)

.PHONY: golden-update
golden-update: tests ## rewrite the golden .cu files; review the diff
	@BUILD=$(BUILD) tools/golden-update.sh

.PHONY: lint
lint: $(BUILD)/.setup-lint ## format, clang, clang-tidy, cppcheck, shellcheck, pyflakes, layers, headers, documents
	@CUDA_HOME=$(CUDA_HOME) tools/lint.sh

.PHONY: ci
ci: ## everything that needs no GPU; the last line is that of `make test`
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory check-san
	@$(MAKE) --no-print-directory check-valgrind
	@$(MAKE) --no-print-directory test

.PHONY: clean
clean: ## remove the build directory
	rm -rf $(BUILD)

-include $(FPL_OBJECTS:.o=.d) $(CLI_OBJECTS:.o=.d) $(TESTS:=.d) $(FAKES:=.d) $(FUZZERS:=.d) $(GPU_TESTS:=.d) $(CHAOS:=.d)
