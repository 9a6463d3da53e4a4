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

.PHONY: help setup setup-peers setup-browser build demo test bench campaign-collect lint fuzz clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## fetch what is missing (says what first; packages need root)
	@third_party/setup.sh base

setup-peers: ## the Python programs that some tests compare with (4 GB)
	@third_party/setup.sh peers

setup-browser: ## a browser for the tests of the HTML report
	@third_party/setup.sh browser

build: setup ## leave bin/scalewm
	@mkdir -p bin
	go build -buildvcs=false -ldflags '-X main.revision=$(revision)' -o bin/scalewm ./cmd/scalewm

demo: build ## the whole path on Two-Room: data, three models, planning, report
	bin/scalewm reproduce --preset nano --tasks tworoom --methods lewm,scale,aux,untrained,random --out out/demo
	bin/scalewm report out/demo --out out/demo

test: setup ## vet and all tests, ending with the list of skipped ones
	go vet ./...
	go run ./cmd/testsum ./...

bench: setup ## benchmarks; each reports its rate or ratio
	go test -run '^$$' -bench . ./...

EPISODES ?= 300
campaign-collect: setup ## rates and moments of EPISODES (300) collected episodes a task, kills survived; minutes
	SCALEWM_CAMPAIGN=$(EPISODES) nice go test -count 1 -timeout 0 -run '^TestCampaign' -v ./dataset/collect

lint: setup ## formatting, vet, no source file over 450 lines
	@bad=$$($(sources) '*.go' | xargs gofmt -l); [ -z "$$bad" ] || { echo "not formatted: $$bad"; exit 1; }
	@$(sources) '*.go' '*.c' '*.h' | grep -v _test.go | xargs wc -l | \
	  awk '$$2 != "total" && $$1 > 450 { print "over 450 lines:", $$2, $$1; bad = 1 } END { exit bad }'
	go vet ./...

# go test sometimes ends a fuzzing that ran out of its time with "context deadline
# exceeded": only a failing input or a broken build counts.
FUZZTIME ?= 60s
fuzz: setup ## every fuzz target for FUZZTIME (60s)
	@bad=0; while IFS=: read -r file target; do \
	  echo "$$file $$target"; \
	  log=$$(go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "./$$(dirname "$$file")" </dev/null 2>&1) || \
	    grep -q '^ *context deadline exceeded' <<<"$$log" && ! grep -q 'Failing input' <<<"$$log" || { bad=1; echo "$$log"; }; \
	done < <($(sources) '*_test.go' | xargs grep -Ho '^func Fuzz[A-Za-z0-9_]*' | sed 's/:func /:/'); exit $$bad

clean: ## remove outputs (bin, out); what was fetched stays
	rm -rf bin out
