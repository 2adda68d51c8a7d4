# The everyday commands. Each is a thin call of a script or of CMake, which can be used alone too.
.DEFAULT_GOAL := help
.PHONY: help packages build test test-rdma soak soak-% bench demo demo-stop format tidy clean

PRESET ?= ci

help: ## this list
	@awk -F ':.*## ' '/^[a-z%-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

packages: ## install the Debian packages that are missing (root)
	@cmake/install-packages

build: packages ## build everything into build/$(PRESET); PRESET=dev, ci, release, bench, asan, tsan or fuzz
	@test/build $(PRESET)

test: ## everything that proves a change; the last line counts it
	@test/run

test-rdma: ## the agent against real RDMA devices, those in software of an emulated machine
	@test/build ci asterism-agent
	@test/rdma/run

soak: ## hours: long kills, long fuzzing, many seeds; in parts: make soak-spine
	@test/soak

soak-%: ## one part of soak
	@test/soak $*

bench: packages ## all benchmarks, optimised for AVX2; writes docs/benchmarks.md
	@test/build bench
	@test/rig/build
	@test/bench/run --all --write docs/benchmarks.md

demo: ## a 512-GPU job on simulated nodes, and PyTorch on real ones (root), on this machine
	@test/demo/demo

demo-stop: ## take the demo down
	@test/demo/demo-stop

format: ## clang-format over all C++ files
	@git ls-files '*.cc' '*.h' | xargs clang-format -i

tidy: packages ## clang-tidy over all C++ files (slow); FILES="a.cc b.cc" for some
	@test/house/clang_tidy $(FILES)

clean: ## remove build/ (the rig's programs stay in their cache)
	@rm -rf build
