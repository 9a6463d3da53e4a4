# Everything a checkout needs; `make` alone lists it. Go's own commands
# (go build ./..., go vet ./..., go test ./...) work too after `make setup`.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory

# Tests look at pages in a browser where there is one, and compare with Python
# programs where make setup-peers has been run.
chromium := $(firstword $(wildcard /usr/bin/chromium /usr/bin/chromium-browser /usr/bin/google-chrome))
ifneq ($(chromium),)
export SCALEWM_BROWSER ?= $(chromium)
endif
peers := third_party/fetched/peers
ifneq ($(wildcard $(peers)/complete),)
export SCALEWM_PEERS ?= $(CURDIR)/$(peers)/bin/python
endif

revision := $(shell git describe --always --dirty 2>/dev/null)
sources = git ls-files --cached --others --exclude-standard

.PHONY: help setup setup-peers setup-browser setup-cuda build wheel cuda gpu-day gpu-day-rehearsal demo pictures test test-peers test-python test-race test-asan test-slurm test-kubernetes test-nfs test-s3 test-all test-cuda-compile bench campaign-collect campaign-grid campaign-stats campaign-memory torture flips lint fuzz fuzz-long clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## fetch what is missing (says what first; packages need root)
	@third_party/setup.sh base

setup-peers: ## the Python programs that some tests compare with, as third_party/peers.lock has them (4 GB; Python 3.11)
	@third_party/setup.sh peers

setup-browser: ## a browser for the tests of the HTML report
	@third_party/setup.sh browser

setup-cuda: setup ## headers and compiler of the GPU's kernels (89 MB; no GPU needed)
	@third_party/setup.sh cuda

build: setup ## leave bin/scalewm
	@mkdir -p bin
	go build -buildvcs=false -ldflags '-X main.revision=$(revision)' -o bin/scalewm ./cmd/scalewm

# The GPU build: cgo finds what make setup-cuda fetched; NVRTC makes PTX of the kernels.
fetched := $(CURDIR)/third_party/fetched
cuda_env = CGO_CFLAGS="-O2 -g -I$(fetched)/nvidia_cuda_runtime_cu12/include -I$(fetched)/nvidia_cuda_nvrtc_cu12/include" \
  CGO_LDFLAGS="-O2 -g -L$(fetched)/cuda" LD_LIBRARY_PATH="$(fetched)/nvidia_cuda_nvrtc_cu12"

cuda: setup-cuda ## leave bin/scalewm-cuda, on any machine; it runs on an NVIDIA GPU, or else as bin/scalewm
	@mkdir -p bin
	$(cuda_env) go run -tags gpu ./model/device/cuda/compile -out model/device/cuda/gpu/ptx
	$(cuda_env) go build -tags gpu -buildvcs=false -ldflags '-X main.revision=$(revision)' -o bin/scalewm-cuda ./cmd/scalewm

gpu-day: cuda ## leave bin/gpu-day: all that a day with a GPU needs (model/device/cuda/testdata/gpu-day.sh)
	$(cuda_env) model/device/cuda/testdata/gpu-day.sh pack

gpu-day-rehearsal: gpu-day ## run that day at toy sizes on an emulated GPU; half an hour
	SCALEWM_GPU_DAY=$(CURDIR)/bin/gpu-day/gpu-day.sh $(cuda_env) nice go test -tags gpu -count 1 -timeout 90m -run '^TestRehearsal$$' -v ./model/device/cuda/gpu

# No user of the wheel needs a compiler, a checkout or libraries beyond the C library's. CGO_LDFLAGS of its own
# keep Go's cache from giving these packages to other builds, which it tells apart by them and not by pkg-config's.
WHEEL_VERSION := 0.1.0.dev0
wheel: setup ## leave dist/scalewm-*.whl: worlds for Python (docs/python.md)
	@mkdir -p bin
	PKG_CONFIG_PATH=$(CURDIR)/cmd/libscalewm/static CGO_LDFLAGS='-O2 -g -static-libgcc' \
	  go build -tags wheel -buildvcs=false -buildmode=c-shared -ldflags '-s -w -extldflags "-Wl,--exclude-libs,ALL"' -o bin/libscalewm.so ./cmd/libscalewm
	python3 cmd/libscalewm/wheel.py bin/libscalewm.so third_party/fetched $(WHEEL_VERSION) dist

demo_grid = --preset nano --tasks tworoom --methods lewm,scale,aux,untrained,random --out out/demo
demo: build ## the whole path on Two-Room: data, three models, planning, report; begins with how long that takes here
	@[ -e out/demo/report.html ] || bin/scalewm reproduce $(demo_grid) --dry-run --measure
	bin/scalewm reproduce $(demo_grid)

PICTURES ?= out/demo
pictures: setup ## the README's pictures in docs/img, of the results folder PICTURES (out/demo); needs a browser
	SCALEWM_PICTURES=$(abspath $(PICTURES)) go test -count 1 -run '^TestPictures$$' ./eval/report

test: setup ## vet and all tests, the kernels for AVX-512 by imitation too, ending with the list of skipped ones
	go vet ./...
	go test -tags imitated -run '^Test(Conformance|Pairs|(Stored)?ActivationAccuracy)$$' ./model/device/cpu
	.ci/testsum ./...
	@if [ -e third_party/fetched/cuda/libcuda.a ]; then $(MAKE) test-cuda-compile; \
	  else echo "skipped: the GPU build and its kernels' compilation (make setup-cuda)"; fi

# The tests named TestPeers..., of the packages that have some. They run one package
# after the other, since some of them measure, and PyTorch takes its time.
test-peers: setup setup-peers ## the tests that compare with Python programs; a skipped one is a failure here
	SCALEWM_PEERS=$(CURDIR)/$(peers)/bin/python .ci/testsum -noskip -count 1 -p 1 -timeout 60m -run '^TestPeers' \
	  $$($(sources) '*_test.go' | xargs grep -l SCALEWM_PEERS | xargs dirname | sort -u | grep -v third_party | sed 's,^,./,')

test-python: build wheel ## the Python package's tests, on the wheel; half a minute
	@third_party/setup.sh python
	@rm -rf out/python
	@python3 -m zipfile -e dist/scalewm-*.whl out/python
	@for task in tworoom pusht pointmaze; do bin/scalewm collect $$task --episodes 3 --out out/python/recordings/$$task.h5; done
	@cd out/python/recordings && for method in scale dinowm-random; do \
	  $(CURDIR)/bin/scalewm train --task tworoom --method $$method --preset $(CURDIR)/cmd/scalewm/testdata/tiny.toml --data tworoom.h5 --out $$method/run && \
	  $(CURDIR)/bin/scalewm encode --weights $$method/run --data tworoom.h5 --out $$method/latents.h5 && \
	  $(CURDIR)/bin/scalewm eval --task tworoom --weights $$method/run --data tworoom.h5 --tier T5 --sets s101 --episodes 3 --out $$method/native && \
	  $(CURDIR)/bin/scalewm weights convert $$method/run $$method/pytorch && rm $$method/pytorch/weights.json || exit; \
	done >log
	cd cmd/libscalewm/testdata && SCALEWM_RECORDINGS=$(CURDIR)/out/python/recordings PYTHONPATH=$(CURDIR)/out/python PYTHONDONTWRITEBYTECODE=1 \
	  $(CURDIR)/third_party/fetched/python/bin/python -m unittest

test-slurm: setup ## grids on a real Slurm of two nodes on this machine, which it installs; a few minutes
	@third_party/setup.sh slurm
	SCALEWM_SLURM=1 .ci/testsum -count 1 -timeout 20m -run '^Test(Slurm|Shellcheck|HostilePaths)$$' ./cmd/scalewm ./eval/submit

test-kubernetes: setup ## grids on a real API server and Job controller, whose pods are processes here (needs root; builds them first)
	cd eval/submit/testdata/kubernetes && go build -o $(CURDIR)/bin/kubernetes ./cluster
	SCALEWM_KUBERNETES=$(CURDIR)/bin/kubernetes .ci/testsum -count 1 -timeout 20m -run '^TestKubernetes$$' ./cmd/scalewm

test-nfs: setup ## two machines on one folder of a real NFS server, in a user-mode Linux that it installs; minutes
	@third_party/setup.sh nfs
	SCALEWM_NFS_TEST=1 .ci/testsum -count 1 -timeout 20m -run '^TestNFS$$' ./cmd/scalewm

test-s3: setup ## processes that share a grid through a real S3 server, versitygw, which it builds; minutes
	GOBIN=$(CURDIR)/bin go install github.com/versity/versitygw/cmd/versitygw@v1.8.0
	SCALEWM_S3=$(CURDIR)/bin/versitygw .ci/testsum -count 1 -timeout 20m -run '^TestS3$$' ./dataset/remote ./cmd/scalewm

test-all: ## every suite above, one after the other, ending with a table of results; an hour
	@SCALEWM_PEERS= .ci/test-all test test-python test-peers test-slurm test-kubernetes test-s3 test-nfs

test-race: setup ## all tests under Go's race detector; an hour
	nice .ci/testsum -race -count 1 -p 1 -timeout 4h ./...

# Libraries that are opened at run time are not instrumented, and what they leak is not
# ours. C that does what the standard leaves undefined ends a test too; gcc's other
# checks of that kind make the kernels take many minutes to compile. Memory is counted
# without them: they allocate what the compiler keeps on the stack, and keep what is freed.
undefined := signed-integer-overflow,shift,integer-divide-by-zero,bounds,float-cast-overflow,vla-bound
counted := ^FuzzBuild$$|^Test(NoAllocations|FramesAllocateNothing|ErrorsFromManyGoroutines)$$|^TestConformance$$/^Allocations$$|^TestConformance$$/^Vector$$/^Garbage
test-asan: setup ## all tests under the sanitizers of addresses and of undefined behaviour, our C included; an hour
	ASAN_OPTIONS=detect_leaks=0 CGO_LDFLAGS="-O2 -g -fsanitize=$(undefined)" \
	  CGO_CFLAGS="-O2 -g -fsanitize=$(undefined) -fno-sanitize-recover=$(undefined)" \
	  nice .ci/testsum -asan -count 1 -p 1 -timeout 4h -skip '$(counted)' ./...

test-cuda-compile: cuda ## compile the GPU's kernels for all targets, vet and test the GPU build, where there is no GPU on an emulated one
	$(cuda_env) go vet -tags gpu ./model/device/cuda/... ./cmd/scalewm
	@export SCALEWM_EMULATED_DRIVER=$$(mktemp -d) $(cuda_env); trap 'rm -rf "$$SCALEWM_EMULATED_DRIVER"' EXIT; \
	.ci/testsum -tags gpu ./model/device/cuda/compile ./model/device/cuda/gpu; \
	.ci/testsum -tags gpu -run '^TestGPU' ./model/lewm ./model/train ./eval/plan ./cmd/scalewm

bench: setup ## benchmarks; each reports its rate or ratio
	go test -run '^$$' -bench . ./...

EPISODES ?= 300
campaign-collect: setup ## rates and moments of EPISODES (300) collected episodes a task; minutes
	SCALEWM_CAMPAIGN=$(EPISODES) nice go test -count 1 -timeout 0 -run '^TestCampaign' -v ./dataset/collect

campaign-grid: setup ## a grid of 10^5 cells planned, dealt out, merged, reported on, submitted and watched; minutes
	SCALEWM_CAMPAIGN=1 nice go test -count 1 -timeout 0 -run '^TestCampaign' -v ./cmd/scalewm

campaign-memory: setup ## memory while Two-Room is collected, trained on and evaluated over 10,000 episodes; half an hour, 5 GB of disk
	SCALEWM_MEMORY=10000 nice go test -count 1 -timeout 0 -run '^TestMemory$$' -v ./cmd/scalewm

KILLS ?= 1000
torture: setup ## KILLS (1000) kills, half as many failing system calls, full disks; counts in out/torture.json; an hour
	@mkdir -p out
	SCALEWM_TORTURE=$(KILLS) SCALEWM_TORTURE_JSON=$(CURDIR)/out/torture.json nice go test -count 1 -timeout 0 -run '^TestTorture$$' -v ./cmd/scalewm

flips: setup ## every bit of a file's metadata flipped: refused, or of no consequence; half an hour
	SCALEWM_FLIPS=all nice go test -count 1 -timeout 0 -run '^TestFlipsOf' -v ./dataset/hdf5

campaign-stats: setup ## size, coverage and power of the paired tests in 20,000 simulated evaluations; a minute
	SCALEWM_REPETITIONS=20000 nice go test -count 1 -run '^Test(SizeUnderTheNull|Coverage|Power)$$' -v ./eval/stats

SEEDS ?= 3072,3073,3074
campaign-precision: build ## bf16 against fp32: LeWM and SCALE on nano Two-Room, SEEDS (three) each, last losses and success; an hour
	@for p in fp32 bf16; do \
	  nice bin/scalewm reproduce --preset nano --tasks tworoom --methods lewm,scale --seeds $(SEEDS) --precision $$p --out out/precision/$$p; \
	done
	@for p in fp32 bf16; do \
	  for run in out/precision/$$p/train/*/; do echo "$$p $$(basename $$run) $$(tail -n 1 $$run/metrics.jsonl)"; done; \
	  cat out/precision/$$p/report.json; echo; \
	done

lint: setup ## formatting, vet, go.mod as go mod tidy leaves it
	@bad=$$($(sources) '*.go' | xargs gofmt -l); [ -z "$$bad" ] || { echo "not formatted: $$bad"; exit 1; }
	go vet ./...
	go mod tidy -diff

FUZZ ?= .
fuzz: setup ## every fuzz target, or those that match FUZZ, for a minute
	@rm -f out/fuzz/slices.tsv
	@.ci/fuzz 60 10000000 out/fuzz '$(FUZZ)'

fuzz-long: setup ## the same for 10 million inputs or 20 minutes each; goes on where it was cut; hours
	@.ci/fuzz 1200 10000000 out/fuzz-long '$(FUZZ)'

clean: ## remove outputs (bin, out, dist); what was fetched stays
	rm -rf bin out dist
