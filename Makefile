# make help lists the targets. On Debian and Ubuntu each target first installs missing
# packages with apt-get, and with sudo if you are not root.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := all

# Without this, Go silently leaves out the C code if it finds no compiler.
export CGO_ENABLED := 1

# git refuses to read a clone of another user. Such a clone builds without a version stamp.
ifneq ($(shell git rev-parse HEAD >/dev/null 2>&1 || echo refused),)
export GOFLAGS := $(shell go env GOFLAGS) -buildvcs=false
endif
tool  := go tool -modfile=tools/go.mod

##@ Building

.PHONY: all
all: need-build ## build the programs of cmd/: ./rdma_server, ./rdma_client, ./rdma_lab (the default)
	go build -o ./ ./cmd/...

.PHONY: rebuild
rebuild: clean all ## clean, then all

.PHONY: clean
clean: ## remove the programs and out/; keep the caches (make vm-clean removes the kernel)
	rm -rf out
	rm -f $(notdir $(wildcard cmd/*))

##@ Running

.PHONY: demo
demo: ## run the main job: rdma_server and rdma_client on soft0; installs nothing
	@export CGO_ENABLED; CGO_ENABLED=$$(tools/need.sh cgo); go build -o ./ ./cmd/...
	@test/e2e/demo.sh soft0 127.0.0.1

.PHONY: demo-rxe
demo-rxe: all need-vm ## the same on rxe0, the kernel's device, in a virtual machine
	@test/vm/run.sh 'test/e2e/demo.sh rxe0 10.99.0.1'

##@ Testing

.PHONY: check
check: vet ## quick tests for every edit: vet, unit tests, the real binaries on soft0
	go test ./...

.PHONY: vet
vet: need-build ## gofmt, vet, staticcheck, a build without cgo
	@bad=$$(find . -path ./out -prune -o -name '*.go' -print0 | xargs -0 gofmt -l); [[ -z $$bad ]] || { echo "gofmt -w these: $$bad" >&2; exit 1; }
	go vet ./...
	go vet -tags rdma,rxe ./...
	go vet -tags lab ./test/e2e
	go vet -tags cgocalls ./verbs/...
	$(tool) staticcheck -tags rdma,rxe ./...
	$(tool) staticcheck -tags lab ./test/e2e
	CGO_ENABLED=0 go build ./...

# The tests run on linux/amd64; docs/setup.md has the other systems.
vetted = linux/386 darwin/arm64
built  = linux/arm linux/arm64 linux/s390x linux/riscv64 freebsd/amd64
.PHONY: static
static: vet ## vet, and builds for other systems
	@for on in $(vetted); do echo "go vet ./... for $$on"; CGO_ENABLED=0 GOOS=$${on%/*} GOARCH=$${on#*/} go vet ./... || exit; done
	@for on in $(built); do echo "go build ./... for $$on"; CGO_ENABLED=0 GOOS=$${on%/*} GOARCH=$${on#*/} go build ./... || exit; done
	CGO_ENABLED=0 GOOS=js GOARCH=wasm go build ./verbs
	CGO_ENABLED=0 GOOS=js GOARCH=wasm go vet ./qpstate ./softroce/internal/packet ./softroce/internal/transport

# test/e2e, which runs the real binaries, takes minutes; nocgo and race run it.
.PHONY: unit
unit: need-build ## unit tests, built like the programs
	go test $$(go list ./... | grep -v /test/e2e$$)
	go test -tags cgocalls ./verbs/...

.PHONY: test
test: static unit lint nocgo race test-rxe test-lab ## all tests: static, unit, lint, nocgo, race, test-rxe (on rxe0 in a machine), test-lab (two machines)
	@echo "make test: all passed"

# CMD='make check' runs another command; FRESH_USER=1 runs as an ordinary user. See
# test/fresh/README.md.
.PHONY: fresh
fresh: export FRESH_CMD := $(value CMD)
fresh: ## make demo && make test (or CMD) in a clone of HEAD on a pristine Debian
	@test/fresh/run.sh $${FRESH_CMD:+"$$FRESH_CMD"}

# TARGETS='…' runs only these; WITHOUT='…' leaves these out.
.PHONY: all-targets
all-targets: ## run every target of this list once, as short as possible, and print a table; before a release
	@tools/all-targets.sh $(if $(WITHOUT),--without '$(WITHOUT)') $(TARGETS)

.PHONY: fresh-clean
fresh-clean: ## remove the pristine Debian and the caches of fresh
	@$$( ((EUID == 0)) || echo sudo) rm -rf "$${XDG_CACHE_HOME:-$$HOME/.cache}/rawverbs/fresh"

.PHONY: nocgo
nocgo: ## unit tests and the real binaries on soft0, built without C
	CGO_ENABLED=0 go test ./...

.PHONY: race
race: need-build ## unit tests under the race detector, and a minute of all of rc's methods beside each other
	go test -race ./...
	RAWVERBS_STRESS=60s go test -race -run TestAllMethodsBesideEachOther ./rc

# The packages with tests that need a device (build tag rdma).
rdma_packages = $(sort $(dir $(shell grep -rlE --include='*_test.go' '^//go:build.*\<rdma\>|internal/testdevice"' .)))
# RUN=regexp selects tests, RDMA_TEST_FLAGS adds flags: make test-rxe RUN=TestMain RDMA_TEST_FLAGS=-v
RUN ?= .
rdma_test = go test -count=1 -p 1 -timeout 19m -run '$(RUN)' $(RDMA_TEST_FLAGS)

# go test -exec in-vm.sh needs the test binary in the repository, which the machine shares.
in_vm = mkdir -p out/_tmp; GOTMPDIR=$(CURDIR)/out/_tmp VM_TIMEOUT=1200

# A C program that the tests use as a peer.
out/cpeer: test/e2e/cpeer/cpeer.c
	@mkdir -p out
	$(CC) -O2 -Wall -Wextra -Werror -o $@ $< -libverbs

# A machine keeps one processor busy, so two machines share the tests. One runs the longest
# tests of the commands, most of them with other programs; the other runs the rest.
longest = SoftWithRxe|Perftest|Pingpong|CPeers|Formats|Mixed|TestJobs|TestBench
.PHONY: test-rxe test-rxe-longest test-rxe-rest
test-rxe: all need-vm out/cpeer ## tests that need a device, on rxe0, in two machines at once (RUN=regexp selects tests, in one machine)
ifeq ($(RUN),.)
	@$(MAKE) -j2 --output-sync=target test-rxe-longest test-rxe-rest
else
	$(in_vm) $(rdma_test) -tags rdma,rxe -exec $(CURDIR)/test/e2e/in-vm.sh $(rdma_packages)
endif
test-rxe-longest: RUN = $(longest)
test-rxe-longest:
	$(in_vm) $(rdma_test) -tags rdma,rxe -exec $(CURDIR)/test/e2e/in-vm.sh ./test/e2e
test-rxe-rest:
	$(in_vm) $(rdma_test) -skip '$(longest)' -tags rdma,rxe -exec $(CURDIR)/test/e2e/in-vm.sh $(rdma_packages)

# Tests that use tshark, which need-vm installs (build tag lab).
on_the_wire = go test -count=1 -timeout 15m -tags lab $(RDMA_TEST_FLAGS)

.PHONY: test-lab
test-lab: all need-vm ## test two machines with a wire between them (make lab), and compare docs/on-the-wire.md with real packets
	$(on_the_wire) -run 'Lab|OnTheWire|Shape|Shown' ./test/e2e

.PHONY: on-the-wire
on-the-wire: all need-vm ## update the packets in docs/on-the-wire.md from runs on soft0
	$(on_the_wire) -run OnTheWire ./test/e2e -update

.PHONY: test-device
test-device: all out/cpeer ## tests that need a device, on this host's RDMA_TEST_DEVICE, as root
	@[[ -n "$${RDMA_TEST_DEVICE:-}" ]] || { echo "test-device needs RDMA_TEST_DEVICE; try: make test-device RDMA_TEST_DEVICE=mlx5_0 (rdma link lists the devices)" >&2; exit 1; }
	$(rdma_test) -tags rdma $(rdma_packages)

FUZZTIME ?= 20s
.PHONY: fuzz
fuzz: need-build ## run each fuzz test for FUZZTIME (20s)
	@go list -f '{{.ImportPath}} {{.Dir}}' ./... | while read -r package dir; do \
		for target in $$(grep -hoE '^func Fuzz\w+' "$$dir"/*_test.go 2>/dev/null | cut -c6-); do \
			echo "go test -fuzz $$target $$package"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$package"; \
		done; \
	done

.PHONY: conformance
conformance: need-vm ## run the conformance cases on soft0, on a faulty network and on rxe0 in a machine; print one table
	@rm -rf out/conformance; mkdir -p out/conformance
	RDMA_TEST_RESULTS=$(CURDIR)/out/conformance go test -count=1 ./internal/verbstest
	RDMA_TEST_RESULTS=$(CURDIR)/out/conformance go test -count=1 -run Conformance ./softroce -softroce.seeds=1
	VM_OUT=$(CURDIR)/out/conformance; export VM_OUT; $(in_vm) $(rdma_test) -tags rdma,rxe -exec $(CURDIR)/test/e2e/in-vm.sh ./internal/verbstest
	@go run ./internal/verbstest/table out/conformance

# The sanitizer keeps freed memory for a while (the quarantine) to detect later use. The
# quarantine is small because TestLeaks fails if memory grows. VM_ICOUNT: the sanitizer is
# slow, and on a busy host the cases would otherwise time out.
.PHONY: asan
asan: export ASAN_OPTIONS = quarantine_size_mb=1:thread_local_quarantine_size_kb=64
asan: export VM_ENV = ASAN_OPTIONS
asan: export VM_ICOUNT = 1
asan: need-vm ## run the C code of package verbs under the address sanitizer: unit tests, and on rxe0 in a machine
	go test -count=1 -asan ./verbs
	$(in_vm) VM_TIMEOUT=1500 $(rdma_test) -timeout 25m -asan -tags rdma,rxe -exec $(CURDIR)/test/e2e/in-vm.sh ./verbs ./internal/verbstest

LEAKS ?= 10000
.PHONY: leaks
leaks: need-vm ## create and free LEAKS (10000) of each object, on soft0 and on rxe0 in a machine
	go test -count=1 -run TestLeaks -v ./internal/verbstest -leaks $(LEAKS)
	$(in_vm) VM_TIMEOUT=1500 go test -count=1 -timeout 20m -run TestLeaks -v -tags rdma,rxe -exec $(CURDIR)/test/e2e/in-vm.sh ./internal/verbstest -leaks $(LEAKS)

# ROUNDS=3 for a quick look, BENCH_FLAGS=-markdown for docs/benchmarks.md.
ROUNDS ?= 7
.PHONY: bench
bench: all need-vm ## compare rdma_server and rdma_client with perftest, rxe0 and sockets, in one table (ROUNDS=7)
	@rm -rf out/bench; mkdir -p out/bench
	CGO_ENABLED=0 go build -o out/bench/bench ./test/versus/bench
	VM_TIMEOUT=1500 VM_OUT=$(CURDIR)/out/bench test/vm/run.sh \
		'for part in perftest rxe0; do out/bench/bench -rounds $(ROUNDS) -o $$VM_OUT/$$part.json $$part || exit; done'
	out/bench/bench -rounds $(ROUNDS) -o out/bench/sockets.json sockets
	@out/bench/bench $(BENCH_FLAGS) table out/bench/*.json

# BENCHTIME=1x for a quick look.
BENCHTIME ?= 2s
.PHONY: bench-go
bench-go: need-build ## benchmarks of the hot path
	go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...

.PHONY: bench-soft
bench-soft: ## compare the speed of soft0 with TCP and UDP
	CGO_ENABLED=0 go test -run '^$$' -bench . -benchtime $(BENCHTIME) ./softroce

.PHONY: bench-rxe
bench-rxe: need-vm ## compare the speed of the soft device with rxe0, in a machine
	$(in_vm) go test -run '^$$' -bench . -benchtime $(BENCHTIME) -tags rdma,rxe -exec $(CURDIR)/test/e2e/in-vm.sh ./softroce/internal/interop

.PHONY: bench-c
bench-c: need-vm ## compare posting, polling and waiting with an equivalent C program, on rxe0 in a machine
	$(in_vm) VM_TIMEOUT=1500 go test -timeout 30m -run '^$$' -bench '$(RUN)' -benchtime 1x -tags rdma,rxe -exec $(CURDIR)/test/e2e/in-vm.sh ./test/versus

.PHONY: coverage-verbs
coverage-verbs: need-build ## list which functions of libibverbs are wrapped, refused (with the reason) or missing
	go run ./verbs/internal/coverage

scripts = $(sort $(shell find . -path ./out -prune -o -name '*.sh' -print)) .ci/run
.PHONY: apidiff
apidiff: ## list the changes of the public API since the newest release of CHANGELOG.md, or since BASE=COMMIT
	@tools/apidiff.sh $(BASE)

.PHONY: lint
lint: need-lint ## run golangci-lint (pinned in tools/go.mod) and shellcheck
	$(tool) golangci-lint run
	shellcheck $(scripts)
	shellcheck -s dash test/vm/init

##@ The machine with rxe0

include test/vm/vm.mk

.PHONY: need-build need-lint need-vm
need-build need-lint need-vm: need-%:
	@tools/need.sh $*

.PHONY: help
help: ## print this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {print "\n" substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' Makefile
	@sed -n 's/^#   make/  make/p' test/vm/vm.mk
