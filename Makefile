# The targets that users need; `make` alone lists them. dev.mk has the rest. After `make setup`,
# go build ./..., go vet ./... and go test ./... work in any shell.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory

VERSION := 0.1.0
revision := $(shell git describe --always --dirty 2>/dev/null)
# -w leaves debug information out, which takes a third of the linker's time. Panics still name lines.
version_flags = -w -X main.release=$(VERSION) -X main.revision=$(revision)
fetched := $(CURDIR)/third_party/fetched
sources = git ls-files --cached --others --exclude-standard

# Tests look at pages in a browser if there is one, and compare with Python
# programs if make setup-peers has been run.
chromium := $(firstword $(wildcard /usr/bin/chromium /usr/bin/chromium-browser /usr/bin/google-chrome))
ifneq ($(chromium),)
export SCALEWM_BROWSER ?= $(chromium)
endif
ifneq ($(wildcard $(fetched)/peers/complete),)
export SCALEWM_PEERS ?= $(fetched)/peers/bin/python
endif

.PHONY: help help-dev setup setup-cuda build cuda wheel demo check-published test lint clean
list = awk -F ':.*\#\# ' '/^[a-z0-9-]+:.*\#\# /{printf "  make %-20s %s\n", $$1, $$2}'

help: ## list these targets
	@$(list) Makefile

help-dev: ## list the targets for development: campaigns, single suites, fuzzing, sanitizers
	@$(list) dev.mk

setup: ## fetch what is missing; prints what first (system packages need root)
	@third_party/setup.sh base

setup-cuda: setup ## fetch headers and compiler of the GPU kernels (89 MB; no GPU needed)
	@third_party/setup.sh cuda

build: setup ## build bin/scalewm
	@mkdir -p bin
	go build -buildvcs=false -ldflags '$(version_flags)' -o bin/scalewm ./cmd/scalewm

# gcc finds what make setup-cuda fetched; NVRTC compiles the kernels to PTX. With CGO_CFLAGS Go would compile all C
# code again, since they are part of the keys of its build cache.
cuda_env = CPATH="$(fetched)/nvidia_cuda_runtime_cu12/include:$(fetched)/nvidia_cuda_nvrtc_cu12/include" \
  LIBRARY_PATH="$(fetched)/cuda" LD_LIBRARY_PATH="$(fetched)/nvidia_cuda_nvrtc_cu12"

cuda: ptx ## build bin/scalewm-cuda, on any machine; it uses an NVIDIA GPU if there is one
	@mkdir -p bin
	$(cuda_env) go build -tags gpu -buildvcs=false -ldflags '$(version_flags)' -o bin/scalewm-cuda ./cmd/scalewm

# The wheel needs no compiler, checkout or library except the C library.
wheel: setup ## build dist/scalewm-*.whl, the Python package with the program
	@mkdir -p bin
	PKG_CONFIG_PATH=$(CURDIR)/cmd/libscalewm/static \
	  go build -tags library,wheel -buildvcs=false -buildmode=c-shared -ldflags '-s $(version_flags) -extldflags "-Wl,--exclude-libs,ALL"' -o bin/libscalewm.so ./cmd/scalewm
	gcc -O2 -s -o bin/launcher cmd/libscalewm/program/scalewm.c
	python3 cmd/libscalewm/wheel.py bin/libscalewm.so bin/launcher third_party/fetched $(VERSION) dist

demo_grid = --preset nano --tasks tworoom --methods lewm,scale,aux,untrained,random --out out/demo
demo: build ## collect, train three models, plan, and write a report on Two-Room; prints a forecast first
	@[ -e out/demo/report.html ] || bin/scalewm reproduce $(demo_grid) --dry-run --measure
	bin/scalewm reproduce $(demo_grid)

check-published: build ## check the published files in DIR=FOLDER: bytes, counts, evaluation sets, replay, one checkpoint
	@[ -n "$(DIR)" ] || { echo 'give the folder: make check-published DIR=FOLDER'; exit 2; }
	.ci/check-published bin/scalewm '$(DIR)' out/check-published

# Two suites run at a time, since each keeps only one core busy for minutes.
gpu_suite := $(if $(wildcard $(fetched)/cuda/libcuda.a),test-cuda-compile)
test: setup ## vet and all tests; lists the skipped ones
	go vet ./...
	@$(MAKE) -j2 test-go $(gpu_suite) test-imitated
	@[ -n '$(gpu_suite)' ] || echo "skipped: the GPU build and its kernels' compilation (make setup-cuda)"

lint: setup ## formatting, vet, staticcheck, govulncheck, go.mod, workflow files
	@.ci/lint

clean: ## remove outputs (bin, out, dist); what was fetched stays
	rm -rf bin out dist

include dev.mk
