# fuseplan. `make help` prints the targets.
#
#   BUILD      build directory (build)
#   CUDA_HOME  CUDA toolkit; found by itself where it stands in the usual places. Without its headers
#              the program still plans, emits CUDA and looks up.
#   SAN=1      AddressSanitizer + UndefinedBehaviorSanitizer (use another BUILD)
#   V=1        prints whole compiler commands

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

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wvla -Werror
CFLAGS ?= -O2 -g
ALL_CFLAGS = -std=c11 $(WARNINGS) $(CFLAGS) $(if $(SAN),-fsanitize=address$(comma)undefined \
  -fno-sanitize-recover=all -fno-omit-frame-pointer) -I. -MMD -MP
comma := ,
LIBS := -l:libsqlite3.a -l:libyaml.a -l:libjansson.a -l:libmd.a -ldl -lm -lpthread

# Files that need the toolkit's headers, and what stands in for them without.
CUDA_SOURCES := $(wildcard tuner/measure/driver.c tuner/measure/inputs.c tuner/measure/probe.c \
  tuner/measure/sample_*.c tuner/measure/verify_cuda.c tuner/measure/baseline_cublaslt.c \
  tuner/measure/baseline_cudnn.c tuner/measure/baseline_pair.c \
  tuner/measure/worker.c)
NO_CUDA_SOURCES := $(wildcard tuner/*/*_none.c tuner/*/*_absent.c)
LIB_SOURCES := $(filter-out $(if $(HAS_CUDA),$(NO_CUDA_SOURCES),$(CUDA_SOURCES)), \
  $(wildcard tuner/base/*.c tuner/core/*.c costmodel/*.c codegen/*.c tuner/search/*.c \
  tuner/measure/*.c db/*.c))
CLI_SOURCES := $(wildcard tuner/cli/*.c)
GENERATED := $(BUILD)/gen/skeleton_files.c $(BUILD)/gen/migrations.c
LIB_OBJECTS := $(LIB_SOURCES:%.c=$(BUILD)/obj/%.o) $(GENERATED:.c=.o)
CLI_OBJECTS := $(CLI_SOURCES:%.c=$(BUILD)/obj/%.o)
CUDA_INCLUDE := $(if $(HAS_CUDA),-isystem $(CUDA_HOME)/include)
# Not with sanitizers: p_skeleton is NVRTC at work, which is not ours to check.
TESTS := $(patsubst tests/%.c,$(BUILD)/tests/%,$(filter-out $(if $(SAN),tests/prop/p_skeleton.c), \
  $(wildcard tests/unit/t_*.c tests/prop/p_*.c)))
FAKES := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/fakes/*.c))
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
build: $(BUILD)/fuseplan ## the program, at $(BUILD)/fuseplan

# What a machine lacks is installed by tools/setup.sh, which says what it does. One at a time.
$(BUILD)/.setup-%: tools/setup.sh
	@mkdir -p $(BUILD)
	@tools/setup.sh $*
	@touch $@
$(BUILD)/.setup-test $(BUILD)/.setup-lint $(BUILD)/.setup-fuzz: | $(BUILD)/.setup-build

$(BUILD)/fuseplan: $(CLI_OBJECTS) $(BUILD)/libfuseplan.a
	@echo "link $@"
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/libfuseplan.a: $(LIB_OBJECTS)
	@rm -f $@
	$(Q)ar rcs $@ $^

$(BUILD)/gen/skeleton_files.c: tools/embed-files.sh $(shell find codegen/skeletons -name '*.cu*')
	@mkdir -p $(@D)
	$(Q)tools/embed-files.sh > $@.part && mv $@.part $@

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

$(BUILD)/tests/%: tests/%.c $(BUILD)/libfuseplan.a | $(BUILD)/.setup-test
	@mkdir -p $(@D)
	@echo "cc $<"
	$(Q)$(CC) $(ALL_CFLAGS) $(CUDA_INCLUDE) -DFPL_BUILD='"$(BUILD)"' -o $@ $< \
	  $(BUILD)/libfuseplan.a $(LIBS) -lcmocka

$(BUILD)/tests/fuzz/%: tests/fuzz/%.c tests/fuzz/driver.c $(BUILD)/obj/tuner/cli/opts.o \
  $(BUILD)/libfuseplan.a
	@mkdir -p $(@D)
	@echo "cc $<"
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $^ $(LIBS)

.PHONY: run
run: build ## plan a real FFN: tune (on a GPU, else by model), store, look up
	@tools/run.sh $(BUILD)

.PHONY: test
test: $(BUILD)/.setup-test check ## all tests; the last line reads "N passed, N failed"

.PHONY: tests
tests: build $(TESTS) $(FAKES) $(FUZZERS) $(GPU_TESTS) $(CHAOS)

.PHONY: check
check: tests ## unit, property, golden, mutation, chaos (short), fuzz-corpus, kernel-compile, command-line tests
	@BUILD=$(BUILD) CUDA_HOME=$(CUDA_HOME) CHAOS_KILLS=20 tests/run $(TESTS) $(CHAOS) tests/cli/*.bats \
	  tests/prop/mutation.sh tests/fuzz/run.sh tests/gpu/compile.sh tests/gpu/code.sh

.PHONY: check-unit
check-unit: tests ## unit and property tests and fuzz corpora alone
	@BUILD=$(BUILD) tests/run $(TESTS) tests/fuzz/run.sh

.PHONY: check-cli
check-cli: tests ## the command-line tests alone
	@BUILD=$(BUILD) tests/run tests/cli/*.bats

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

.PHONY: bench-show
bench-show: ## the benchmark's table and means, on any machine (JSON=FILE: of another file)
	@command -v python3 >/dev/null || tools/setup.sh bench
	@python3 tools/bench/show.py $(JSON)

.PHONY: golden-update
golden-update: tests ## rewrite the golden .cu files; review the diff
	@BUILD=$(BUILD) tools/golden-update.sh

.PHONY: lint
lint: $(BUILD)/.setup-lint ## format, clang, clang-tidy, cppcheck, shellcheck, layers, headers, documents
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

-include $(LIB_OBJECTS:.o=.d) $(CLI_OBJECTS:.o=.d) $(TESTS:=.d) $(FAKES:=.d) $(FUZZERS:=.d) $(GPU_TESTS:=.d) $(CHAOS:=.d)
