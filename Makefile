# make help lists the targets. On Debian and Ubuntu each of them first installs
# what it needs and does not find (apt-get, with sudo if you are not root).

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := all

# Without this Go leaves the C part out, in silence, where there is no compiler.
export CGO_ENABLED := 1

# A clone that git refuses to look into (another user's) builds too, unstamped.
ifneq ($(shell git rev-parse HEAD >/dev/null 2>&1 || echo refused),)
export GOFLAGS := $(shell go env GOFLAGS) -buildvcs=false
endif
tool  := go tool -modfile=tools/go.mod

##@ Building

.PHONY: all
all: need-build ## build ./rdma_server, ./rdma_client and whatever else cmd/ has (the default)
	go build -o ./ ./cmd/...

.PHONY: rebuild
rebuild: clean all ## clean, then all

.PHONY: clean
clean: ## remove what was built; the caches stay (make vm-clean removes the kernel)
	rm -rf out
	rm -f $(notdir $(wildcard cmd/*))

##@ Running

.PHONY: demo
demo: ## the main job, end to end: rdma_server and rdma_client on soft0, with whatever is installed
	@export CGO_ENABLED; CGO_ENABLED=$$(tools/need.sh cgo); go build -o ./ ./cmd/...
	@test/e2e/demo.sh soft0 127.0.0.1

.PHONY: demo-rxe
demo-rxe: all need-vm ## the same on rxe0, the kernel's device, in a machine of its own
	@test/vm/run.sh 'test/e2e/demo.sh rxe0 10.99.0.1'

##@ Testing

.PHONY: check
check: vet ## the quick part, for every edit: vet, unit tests, the real binaries on soft0
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

# The real binaries are run by nocgo and race; each time takes minutes.
.PHONY: unit
unit: need-build ## unit tests, as they are built for use
	go test $$(go list ./... | grep -v /test/e2e$$)
	go test -tags cgocalls ./verbs/...

.PHONY: test
test: static unit lint nocgo race test-rxe test-lab ## everything: static, unit, lint, nocgo, race, all that needs a device, on rxe0 in the machine, and two machines
	@echo "make test: all passed"

# CMD='make check' runs another command, FRESH_USER=1 as an ordinary user: test/fresh/README.md
.PHONY: fresh
fresh: export FRESH_CMD := $(value CMD)
fresh: ## make demo && make test (or CMD) in a clone of HEAD on a pristine Debian
	@test/fresh/run.sh $${FRESH_CMD:+"$$FRESH_CMD"}

# TARGETS='…' runs these alone, WITHOUT='…' leaves these out.
.PHONY: all-targets
all-targets: ## every target of this list once, short where it can be, as a table with times; before a release
	@tools/all-targets.sh $(if $(WITHOUT),--without '$(WITHOUT)') $(TARGETS)

.PHONY: fresh-clean
fresh-clean: ## remove the pristine Debian and what fresh keeps
	@$$( ((EUID == 0)) || echo sudo) rm -rf "$${XDG_CACHE_HOME:-$$HOME/.cache}/rawverbs/fresh"

.PHONY: nocgo
nocgo: ## unit tests, and the real binaries on soft0, with no C at all
	CGO_ENABLED=0 go test ./...

.PHONY: race
race: need-build ## unit tests under the race detector, and a minute of all of rc's methods beside each other
	go test -race ./...
	RAWVERBS_STRESS=60s go test -race -run TestAllMethodsBesideEachOther ./rc

# The packages with tests that need a device: build tag rdma.
rdma_packages = $(sort $(dir $(shell grep -rlE --include='*_test.go' '^//go:build.*\<rdma\>' .)))
# RUN=regexp selects tests, RDMA_TEST_FLAGS adds flags: make test-rxe RUN=TestMain RDMA_TEST_FLAGS=-v
RUN ?= .
rdma_test = go test -count=1 -p 1 -timeout 19m -run '$(RUN)' $(RDMA_TEST_FLAGS)

# What go test -exec in-vm.sh wants: the binary in the repository, which the machine sees.
in_vm = mkdir -p out/_tmp; GOTMPDIR=$(CURDIR)/out/_tmp VM_TIMEOUT=1200

# A C program for the tests to talk to.
out/cpeer: test/e2e/cpeer/cpeer.c
	@mkdir -p out
	$(CC) -O2 -Wall -Wextra -Werror -o $@ $< -libverbs

# A machine keeps one processor busy, so two share the work: one has the tests of
# commands that take longest, most of them beside other programs; the other has the rest.
longest = SoftWithRxe|Perftest|Pingpong|CPeers|Formats|Mixed|TestJobs|TestBench
.PHONY: test-rxe test-rxe-longest test-rxe-rest
test-rxe: all need-vm out/cpeer ## tests that need a device, on rxe0 in two machines side by side (RUN=regexp selects: in one)
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

# What tests and documents by tshark, which need-vm installs: build tag lab.
on_the_wire = go test -count=1 -timeout 15m -tags lab $(RDMA_TEST_FLAGS)

.PHONY: test-lab
test-lab: all need-vm ## two machines with a wire between them (make lab), and docs/on-the-wire.md against the packets of today
	$(on_the_wire) -run 'Lab|OnTheWire|Shape|Shown' ./test/e2e

.PHONY: on-the-wire
on-the-wire: all need-vm ## write the packets in docs/on-the-wire.md anew, from runs on soft0
	$(on_the_wire) -run OnTheWire ./test/e2e -update

.PHONY: test-device
test-device: all out/cpeer ## the same on this host's RDMA_TEST_DEVICE, as root
	@[[ -n "$${RDMA_TEST_DEVICE:-}" ]] || { echo "which device? make test-device RDMA_TEST_DEVICE=mlx5_0 (rdma link lists them)" >&2; exit 1; }
	$(rdma_test) -tags rdma $(rdma_packages)

FUZZTIME ?= 20s
.PHONY: fuzz
fuzz: need-build ## each fuzz target for FUZZTIME (20s)
	@go list -f '{{.ImportPath}} {{.Dir}}' ./... | while read -r package dir; do \
		for target in $$(grep -hoE '^func Fuzz\w+' "$$dir"/*_test.go 2>/dev/null | cut -c6-); do \
			echo "go test -fuzz $$target $$package"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$package"; \
		done; \
	done

.PHONY: conformance
conformance: need-vm ## the conformance cases on soft0, on a bad network, and on rxe0 in the machine, as one table
	@rm -rf out/conformance; mkdir -p out/conformance
	RDMA_TEST_RESULTS=$(CURDIR)/out/conformance go test -count=1 ./internal/verbstest
	RDMA_TEST_RESULTS=$(CURDIR)/out/conformance go test -count=1 -run Conformance ./softroce -softroce.seeds=1
	VM_OUT=$(CURDIR)/out/conformance; export VM_OUT; $(in_vm) $(rdma_test) -tags rdma,rxe -exec $(CURDIR)/test/e2e/in-vm.sh ./internal/verbstest
	@go run ./internal/verbstest/table out/conformance

# What is freed the sanitizer keeps for a while, to catch whoever uses it still: no more
# of it than TestLeaks, which looks for memory that grows, lets pass. VM_ICOUNT: all is so
# slow that cases would else run out of time on a busy host.
.PHONY: asan
asan: export ASAN_OPTIONS = quarantine_size_mb=1:thread_local_quarantine_size_kb=64
asan: export VM_ENV = ASAN_OPTIONS
asan: export VM_ICOUNT = 1
asan: need-vm ## the C wall under the address sanitizer: its unit tests, and on rxe0 in the machine
	go test -count=1 -asan ./verbs
	$(in_vm) VM_TIMEOUT=1500 $(rdma_test) -timeout 25m -asan -tags rdma,rxe -exec $(CURDIR)/test/e2e/in-vm.sh ./verbs ./internal/verbstest

LEAKS ?= 10000
.PHONY: leaks
leaks: need-vm ## make and free LEAKS (10000) of each object, on soft0 and on rxe0 in the machine
	go test -count=1 -run TestLeaks -v ./internal/verbstest -leaks $(LEAKS)
	$(in_vm) VM_TIMEOUT=1500 go test -count=1 -timeout 20m -run TestLeaks -v -tags rdma,rxe -exec $(CURDIR)/test/e2e/in-vm.sh ./internal/verbstest -leaks $(LEAKS)

# ROUNDS=3 for a quick look, BENCH_FLAGS=-markdown for docs/benchmarks.md.
ROUNDS ?= 7
.PHONY: bench
bench: all need-vm ## rdma_server and rdma_client beside perftest, rxe0 and sockets, in turns: one table (ROUNDS=7)
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
bench-soft: ## the speed of soft0 beside TCP and UDP
	CGO_ENABLED=0 go test -run '^$$' -bench . -benchtime $(BENCHTIME) ./softroce

.PHONY: bench-rxe
bench-rxe: need-vm ## the speed of the soft device beside rxe0's, in the machine
	$(in_vm) go test -run '^$$' -bench . -benchtime $(BENCHTIME) -tags rdma,rxe -exec $(CURDIR)/test/e2e/in-vm.sh ./softroce/internal/interop

.PHONY: bench-c
bench-c: need-vm ## posting, polling and waiting beside a C program that does the same, on rxe0 in the machine
	$(in_vm) VM_TIMEOUT=1500 go test -timeout 30m -run '^$$' -bench '$(RUN)' -benchtime 1x -tags rdma,rxe -exec $(CURDIR)/test/e2e/in-vm.sh ./test/versus

.PHONY: coverage-verbs
coverage-verbs: need-build ## which of libibverbs' functions are wrapped, refused (with the reason) or missing
	go run ./verbs/internal/coverage

scripts = $(sort $(shell find . -path ./out -prune -o -name '*.sh' -print)) .ci/run
.PHONY: apidiff
apidiff: ## what changed in the public API since the newest release of CHANGELOG.md, or since BASE=COMMIT
	@tools/apidiff.sh $(BASE)

.PHONY: lint
lint: need-lint ## golangci-lint (pinned in tools/go.mod) and shellcheck
	$(tool) golangci-lint run
	shellcheck $(scripts)
	shellcheck -s dash test/vm/init

##@ The machine with rxe0

include test/vm/vm.mk

.PHONY: need-build need-lint need-vm
need-build need-lint need-vm: need-%:
	@tools/need.sh $*

.PHONY: help
help: ## this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {print "\n" substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' Makefile
	@sed -n 's/^#   make/  make/p' test/vm/vm.mk
