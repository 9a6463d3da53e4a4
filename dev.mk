# Targets for development, included by the Makefile; `make help-dev` lists them.

.PHONY: setup-peers setup-browser pictures test-all test-peers test-python test-slurm test-kubernetes test-nfs test-s3 test-go test-imitated ptx test-cuda-compile \
  test-race test-asan gpu-day gpu-day-rehearsal bench campaign-collect campaign-grid campaign-memory campaign-stats campaign-precision \
  torture flips fuzz fuzz-long

setup-peers: ## fetch the Python programs that some tests compare with (third_party/peers.lock; 4 GB; Python 3.11)
	@third_party/setup.sh peers

setup-browser: ## install a browser for the tests of the HTML report
	@third_party/setup.sh browser

pictures: build ## write README's film and picture to docs/img, from a small grid in out/pictures (10 minutes; needs a browser)
	bin/scalewm reproduce --preset nano --tasks tworoom,pointmaze,reacher --methods lewm,scale,aux,untrained,random --out out/pictures
	SCALEWM_PICTURES=$(CURDIR)/out/pictures go test -count 1 -run '^Test(Pictures|Film)$$' ./eval/report ./eval/pipeline

test-go: setup ## all tests of the packages (part of test)
	.ci/testsum -timeout 30m ./...

test-imitated: setup ## test the kernels for AVX-512, bf16 and AMX with imitated instructions (part of test)
	go test -tags imitated -run '^Test(Conformance|Pairs|(Stored)?ActivationAccuracy)$$' ./model/device/cpu

test-all: ## run every suite below, one after the other, and print a table of results; half an hour to an hour
	@SCALEWM_PEERS= .ci/test-all test test-python test-peers test-slurm test-kubernetes test-s3 test-nfs

# The tests named TestPeers... They run one package after the other, since some of them measure time.
test-peers: setup setup-peers ## compare with Python programs; a skipped test is a failure here
	SCALEWM_PEERS=$(fetched)/peers/bin/python .ci/testsum -noskip -count 1 -p 1 -timeout 60m -run '^TestPeers' \
	  $$($(sources) '*_test.go' | xargs grep -l SCALEWM_PEERS | xargs dirname | sort -u | grep -v third_party | sed 's,^,./,')

test-python: build wheel ## test the Python package, on the wheel
	@third_party/setup.sh python
	@rm -rf out/python
	@$(fetched)/python/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --target out/python dist/scalewm-*.whl
	@for task in tworoom pusht pointmaze; do bin/scalewm collect $$task --episodes 3 --out out/python/recordings/$$task.h5; done
	@cd out/python/recordings && for method in scale dinowm-random; do \
	  $(CURDIR)/bin/scalewm train --task tworoom --method $$method --preset $(CURDIR)/cmd/scalewm/testdata/tiny.toml --data tworoom.h5 --out $$method/run && \
	  $(CURDIR)/bin/scalewm encode --weights $$method/run --data tworoom.h5 --out $$method/latents.h5 && \
	  $(CURDIR)/bin/scalewm eval --task tworoom --weights $$method/run --data tworoom.h5 --tier T5 --sets s101 --episodes 3 --out $$method/native && \
	  $(CURDIR)/bin/scalewm weights convert $$method/run $$method/pytorch && rm $$method/pytorch/weights.json || exit; \
	done >log && \
	  $(CURDIR)/bin/scalewm train --task tworoom --method gcidm --encoder scale/run --preset $(CURDIR)/cmd/scalewm/testdata/tiny.toml --data tworoom.h5 --out gcidm/run >>log && \
	  $(CURDIR)/bin/scalewm eval --task tworoom --weights gcidm/run --data tworoom.h5 --sets s101 --episodes 3 --out gcidm/native >>log
	cd cmd/libscalewm/testdata && SCALEWM_RECORDINGS=$(CURDIR)/out/python/recordings PYTHONPATH=$(CURDIR)/out/python PYTHONDONTWRITEBYTECODE=1 \
	  $(fetched)/python/bin/python -m unittest

test-slurm: setup ## run grids on a Slurm of two nodes on this machine, which it installs
	@third_party/setup.sh slurm
	SCALEWM_SLURM=1 .ci/testsum -count 1 -timeout 20m -run '^Test(Slurm|Shellcheck|HostilePaths)$$' ./cmd/scalewm ./eval/submit

test-kubernetes: setup ## run grids on a real API server and Job controller, with processes as pods (needs root; builds them first)
	cd eval/submit/testdata/kubernetes && go build -o $(CURDIR)/bin/kubernetes ./cluster
	SCALEWM_KUBERNETES=$(CURDIR)/bin/kubernetes .ci/testsum -count 1 -timeout 20m -run '^TestKubernetes$$' ./cmd/scalewm

test-nfs: setup ## run two machines on one folder of an NFS server, in a user-mode Linux that it installs
	@third_party/setup.sh nfs
	SCALEWM_NFS_TEST=1 .ci/testsum -count 1 -timeout 20m -run '^TestNFS$$' ./cmd/scalewm

test-s3: setup ## share a grid through an S3 server, versitygw, which it builds
	GOBIN=$(CURDIR)/bin go install github.com/versity/versitygw/cmd/versitygw@v1.8.0
	SCALEWM_S3=$(CURDIR)/bin/versitygw .ci/testsum -count 1 -timeout 20m -run '^TestS3$$' ./dataset/remote ./cmd/scalewm

ptx: setup-cuda
	$(cuda_env) go run -tags gpu ./model/device/cuda/compile -out model/device/cuda/gpu/ptx

gpu_tested = $$($(sources) '*_test.go' | xargs grep -l '^func TestGPU' | xargs dirname | sed 's,^,./,')
test-cuda-compile: ptx ## compile the GPU kernels, and test the GPU build on an emulated GPU (part of test after setup-cuda)
	$(cuda_env) go vet -tags gpu ./model/device/cuda/... $(gpu_tested)
	@export SCALEWM_EMULATED_DRIVER=$$(mktemp -d) $(cuda_env); trap 'rm -rf "$$SCALEWM_EMULATED_DRIVER"' EXIT; \
	.ci/testsum -tags gpu ./model/device/cuda/compile ./model/device/cuda/gpu; \
	.ci/testsum -tags gpu -run '^TestGPU' $(gpu_tested)

test-race: setup ## all tests under Go's race detector; an hour
	nice .ci/testsum -race -count 1 -p 1 -timeout 4h ./...

# Libraries that are opened at run time are not instrumented, and their leaks are not ours. Undefined behaviour in C
# fails a test; gcc's remaining checks would make the kernels compile for many minutes. Tests that count memory run
# without sanitizers, which allocate what the compiler keeps on the stack and delay frees.
undefined := signed-integer-overflow,shift,integer-divide-by-zero,bounds,float-cast-overflow,vla-bound
counted := ^FuzzBuild$$|^Test(NoAllocations|FramesAllocateNothing|ErrorsFromManyGoroutines)$$|^TestConformance$$/^Allocations$$|^TestConformance$$/^Vector$$/^Garbage
test-asan: setup ## all tests under the address and undefined-behaviour sanitizers, our C included; an hour
	ASAN_OPTIONS=detect_leaks=0 CGO_LDFLAGS="-O2 -g -fsanitize=$(undefined)" \
	  CGO_CFLAGS="-O2 -g -fsanitize=$(undefined) -fno-sanitize-recover=$(undefined)" \
	  nice .ci/testsum -asan -count 1 -p 1 -timeout 4h -skip '$(counted)' ./...

gpu-day: cuda ## pack bin/gpu-day, what half an hour with a GPU needs (docs/gpu.md)
	$(cuda_env) model/device/cuda/testdata/gpu-day.sh pack

gpu-day-rehearsal: gpu-day ## run it at toy sizes on an emulated GPU; half an hour
	SCALEWM_GPU_DAY=$(CURDIR)/bin/gpu-day/gpu-day.sh $(cuda_env) nice go test -tags gpu -count 1 -timeout 90m -run '^TestRehearsal$$' -v ./model/device/cuda/gpu

bench: setup ## run all Go benchmarks; each reports a rate or a ratio
	go test -run '^$$' -bench . ./...

EPISODES ?= 300
campaign-collect: setup ## rates and moments of EPISODES (300) collected episodes a task; minutes
	SCALEWM_CAMPAIGN=$(EPISODES) nice go test -count 1 -timeout 0 -run '^TestCampaign' -v ./dataset/collect

campaign-grid: setup ## plan, shard, merge, report, submit and watch a grid of 100,000 cells; minutes
	SCALEWM_CAMPAIGN=1 nice go test -count 1 -timeout 0 -run '^TestCampaign' -v ./cmd/scalewm

campaign-memory: setup ## memory while collecting, training and evaluating 10,000 episodes of Two-Room; half an hour, 5 GB of disk
	SCALEWM_MEMORY=10000 nice go test -count 1 -timeout 0 -run '^TestMemory$$' -v ./cmd/scalewm

campaign-stats: setup ## size, coverage and power of the paired tests in 20,000 simulated evaluations; a minute
	SCALEWM_REPETITIONS=20000 nice go test -count 1 -run '^Test(SizeUnderTheNull|Coverage|Power)$$' -v ./eval/stats

SEEDS ?= 3072,3073,3074
campaign-precision: build ## bf16 against fp32: LeWM and SCALE on nano Two-Room, SEEDS (three), last losses and success; an hour
	@for p in fp32 bf16; do \
	  nice bin/scalewm reproduce --preset nano --tasks tworoom --methods lewm,scale --seeds $(SEEDS) --precision $$p --out out/precision/$$p; \
	done
	@for p in fp32 bf16; do \
	  for run in out/precision/$$p/train/*/; do echo "$$p $$(basename $$run) $$(tail -n 1 $$run/metrics.jsonl)"; done; \
	  cat out/precision/$$p/report.json; echo; \
	done

KILLS ?= 1000
torture: setup ## KILLS (1000) kills, half as many failing system calls, full disks; counts in out/torture.json; an hour
	@mkdir -p out
	SCALEWM_TORTURE=$(KILLS) SCALEWM_TORTURE_JSON=$(CURDIR)/out/torture.json nice go test -count 1 -timeout 0 -run '^TestTorture$$' -v ./cmd/scalewm

flips: setup ## flip every bit of a file's metadata: each flip is an error or changes nothing; half an hour
	SCALEWM_FLIPS=all nice go test -count 1 -timeout 0 -run '^TestFlipsOf' -v ./dataset/hdf5

FUZZ ?= .
fuzz: setup ## run every fuzz target, or those that match FUZZ, for a minute each
	@rm -f out/fuzz/slices.tsv
	@.ci/fuzz 60 10000000 out/fuzz '$(FUZZ)'

fuzz-long: setup ## the same for 10 million inputs or 20 minutes each; resumes after an interruption; hours
	@.ci/fuzz 1200 10000000 out/fuzz-long '$(FUZZ)'
