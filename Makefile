# make help lists the rules. One that lacks a package prints the line that installs it, and fails.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory

# Each rule has a comment: "##" for make help, "#" for those that docs/ or another rule names.
rules := $(shell sed -nE 's/^([a-z][a-z0-9 -]*):[^=].*\#.*/\1/p' Makefile)
.PHONY: $(rules)

# Otherwise Go silently leaves out the C code if it finds no compiler.
export CGO_ENABLED := 1
cgo = export CGO_ENABLED; CGO_ENABLED=$$(tools/need.sh cgo)

# git refuses to read a clone of another user, which then builds without a version stamp.
ifneq ($(shell git rev-parse HEAD >/dev/null 2>&1 || echo refused),)
export GOFLAGS := $(shell go env GOFLAGS) -buildvcs=false
endif

# go test with a line per package, and one screen about what failed.
tests = RUN_NAME=$@ go run ./test/run
# RUN selects tests, WHOLE=1 adds the long ones, RDMA_TEST_FLAGS adds flags.
RUN ?= .
short = $(if $(WHOLE),,-short)

##@ Building

wasm = $$(go env GOROOT)/lib/wasm
# BUILT=1: make test has built the programs, and its parts, beside each other, must not.
ifdef BUILT
all engine: ;
else
# VERSION=1.2.3 names the programs; otherwise they have the version that Go takes from git.
all: need-build libraries engine ## build the programs and what ./rawverbs preloads (the default)
	go build $(if $(VERSION),-ldflags=-X=github.com/rawverbs/rawverbs/cmd/internal/app/version.linked=v$(VERSION)) -o ./ ./cmd/...

# ./rdma_lab embeds web/dist, and is linked again only if a file there has changed.
engine: need-build # build the laboratory's engine, for browsers and node
	@mkdir -p out
	CGO_ENABLED=0 GOOS=js GOARCH=wasm go build -trimpath -buildvcs=false -ldflags='-s -w' -o out/engine.wasm ./cmd/internal/lab/workbench/engine
	@[[ web/dist/engine.wasm.gz -nt out/engine.wasm ]] || gzip -9nc out/engine.wasm >web/dist/engine.wasm.gz
	@cmp -s "$(wasm)"/wasm_exec.js web/dist/wasm_exec.js || cp "$(wasm)"/wasm_exec.js web/dist/
endif

# Go's part has no libibverbs in it, and its threads send no SIGURG, which belongs to the program.
libs = $(L)librawverbs.so $(L)librawverbs-core.so
libraries: $(L)librawverbs.so # build what ./rawverbs preloads, in the folder L
	go build -tags nolibibverbs -buildmode=c-shared -trimpath -ldflags="-s -w -X=runtime.godebugDefault=asyncpreemptoff=1" -o $(L)librawverbs-core.so ./cabi/core
	@rm -f $(L)librawverbs-core.h
$(L)librawverbs.so: $(wildcard cabi/shim/* cabi/*.h) | need-build
	$(CC) -std=gnu11 -O2 -g -Wall -Wextra -Werror -fPIC -shared -Wl,-z,nodelete,-z,now,--version-script=cabi/shim/shim.map -o $@ $(filter %.c,$^) -ldl -lpthread

PREFIX ?= /usr/local
programs = $(notdir $(patsubst %/main.go,%,$(wildcard cmd/*/main.go)))
install: ## install what make has built in PREFIX (/usr/local): bin, lib/rawverbs
	@ls $(programs) $(libs) >/dev/null || { echo "try: make && sudo make install" >&2; exit 1; } # sudo often finds no Go
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/rawverbs
	install $(programs) $(DESTDIR)$(PREFIX)/bin
	install -m 644 $(libs) $(DESTDIR)$(PREFIX)/lib/rawverbs

packages: ## make a deb, an rpm and an archive in out/packages (VERSION=1.2.3)
	@deploy/packages.sh

npm = web/node_modules/.package-lock.json
$(npm): web/package-lock.json web/package.json | need-web
	cd web && npm ci --no-fund --no-audit
	@touch $@
web: $(npm) ## build the pages with node: web/dist, which is committed
	cd web && npx tsc --noEmit && node build.mjs

laboratory: engine ## write the laboratory as one file: out/laboratory.html
	CGO_ENABLED=0 go build -o out/rdma_lab ./cmd/rdma_lab
	out/rdma_lab serve --file out/laboratory.html

lab-web: laboratory ## the same, open it if this is a desktop, and serve it
	@[[ -z $${DISPLAY:-}$${WAYLAND_DISPLAY:-} ]] || xdg-open out/laboratory.html || true
	@out/rdma_lab serve $(SERVE)

site: laboratory $(npm) # write the laboratory, a report, docs and benchmarks as static pages: out/site
	out/rdma_lab report --output out/sample.html cmd/internal/view/report/testdata/{write-read.jsonl,{client,server}.pcap}
	node web/site.mjs out/site out/laboratory.html out/sample.html

clean: ## remove the programs and out/; caches are in ~/.cache/rawverbs
	rm -rf out web/dist/engine.wasm.gz web/dist/wasm_exec.js $(programs) $(libs)

##@ Running

setup: ## install what make test needs, with apt-get
	@tools/need.sh --install build lint vm c node web ops
need-%:
	@tools/need.sh build $*

demo: ## run the main job: rdma_server and rdma_client on soft0
	@$(cgo); go build -o ./ ./cmd/...
	@cmd/e2e/demo.sh soft0 127.0.0.1
demo-rxe: all need-vm ## the same on rxe0, the kernel's device, in a virtual machine
	@test/vm/run.sh 'cmd/e2e/demo.sh rxe0 10.99.0.1'

# test/vm/README.md has more variables. $HOME in them is that of the machine.
unexport BUILT CMD JOB SERVER_ARGS CLIENT_ARGS SERVER CLIENT
vm: export VM_CMD := $(value CMD)
vm: ## run CMD='rdma link' in a machine with rxe0; without CMD, a shell
	@test/vm/run.sh "$$VM_CMD"
$(foreach v,JOB SERVER_ARGS CLIENT_ARGS SERVER CLIENT,$(eval lab: export LAB_$v := $$(value $v)))
lab: all need-vm ## run JOB=send between two machines, and capture the wire
	@test/vm/lab.sh

##@ Testing

check: ## for every edit, with Go alone: gofmt, vet, all packages, the real binaries on soft0
	@files=$$(gofmt -l $(filter-out out/,$(wildcard */))); [[ -z $$files ]] || { echo "$$files"; echo "try: gofmt -w on these files" >&2; exit 1; }
	@$(cgo); echo "go vet ./..."; go vet ./... && $(tests) -p 3 ./cmd/e2e ./... # cmd/e2e waits most of the time, so it begins first

# The longest parts begin first, JOBS at once.
JOBS ?= $(shell nproc)
parts = test-rxe-e2e test-rxe-rest race check lint test-c test-web test-lab static test-ops test-wasm
test: ## make setup, then all tests: check, race, lint, static and test-*
	@tools/machine.sh
	@$(MAKE) setup
	@$(MAKE) all out/cpeer
	@$(call beside,$(JOBS),$(parts))
	@echo "make test: all passed"

# Each part has a make and a process group of its own. The last lines are the ends of those that failed; out/parts has all.
beside = rm -rf out/parts; mkdir -p out/parts; set -m; exec 2>/dev/null; $(MAKE) -kj$(1) $(2:%=part-%) & trap 'kill $$!' INT TERM; wait $$! || { tail -vn 30 out/parts/*.failed; exit 1; }
part-%:
	@set -m; BUILT=1 MAKEFLAGS= MAKELEVEL= make $* >out/parts/$*.log 2>&1 </dev/null & trap 'kill -- -$$!' INT TERM; result=passed; \
	wait $$! || { result=FAILED; mv out/parts/$*.{log,failed}; }; printf '%-14s %s  %4d s\n' $* $$result $$SECONDS; [[ $$result == passed ]]

test-more: setup stress test-net ## what make test leaves out: stress, test-net, every test on rxe0, each benchmark once
	go test -run '^$$' -bench . -benchtime 1x ./...
	@$(MAKE) test-rxe WHOLE=1

static: ## check the types of all packages and tests for other systems
	go run ./test/systems

# Not cmd/e2e, whose programs are built without the race detector, and the simulator, which has one goroutine.
race: need-build ## tests under the race detector; those of verbs with its calls through cgo, and without C
	@$(tests) -race $$(go list ./... | grep -vE '/(cmd/e2e|internal/simulate)$$')
	@$(tests) -tags cgocalls ./verbs ./verbs/internal/...
	@CGO_ENABLED=0 $(tests) ./verbs ./verbs/internal/...

golangci = go tool -modfile=tools/go.mod golangci-lint run --build-tags
lint: need-lint ## golangci-lint (pinned in tools/go.mod) and shellcheck
	$(golangci) rdma,rxe,cabi,netns
	LOG_LEVEL=error GOOS=darwin CGO_ENABLED=0 $$(go tool -modfile=tools/go.mod -n golangci-lint) run --enable-only depguard # what other systems import
	$(golangci) lab,operations,netns $(sort $(dir $(shell grep -rlE --include='*.go' '^//go:build.*!rdma' .)))
	shellcheck .ci/run $$(find */ \( -path out -o -path web/node_modules \) -prune -o -name '*.sh' -print)
	shellcheck -s dash test/vm/init

test-wasm: engine need-node ## the laboratory's engine, built for js/wasm, under node
	CGO_ENABLED=0 GOOS=js GOARCH=wasm go test -exec="$(wasm)/go_js_wasm_exec" ./qpstate ./softroce/{internal/{packet,transport},simulated} ./cmd/internal/lab/workbench/...
	node cmd/internal/lab/workbench/engine/test.cjs "$$(go env GOROOT)" out/engine.wasm

test-web: laboratory $(npm) ## the pages in Chromium; web/dist against its sources
	cd web && npx tsc --noEmit && node build.mjs ../out/dist
	diff -rq -x engine.wasm.gz -x wasm_exec.js out/dist web/dist # if they differ: make web
	CGO_ENABLED=0 go build -o out/test-web/ ./cmd/rdma_{server,client,lab}
	cd web && WHOLE=$(WHOLE) node --test --test-reporter=spec $(if $(RUN:.=),--test-name-pattern='$(RUN)') test/*.test.mjs

test-ops: need-ops ## a real Prometheus, the systemd unit, the version, an empty root, the Kubernetes manifests
	$(tests) -count 1 -tags operations -run '^TestOps' ./cmd/e2e
	cd deploy/kubernetes && go test ./...

test-c: all need-c ## programs in C and Python on soft0 through ./rawverbs (WHOLE=1: every combination)
	$(tests) -count=1 -tags cabi $(short) -timeout 30m -run '$(RUN)' ./cmd/e2e/cabi $(RDMA_TEST_FLAGS)

# With tests that need a device (build tag rdma); with TestNetns*, which need a network namespace or a cgroup (netns), so root's rights.
rdma_packages = $(sort $(dir $(shell grep -rlE --include='*_test.go' '^//go:build.*\<rdma\>|softroce/softtest"' .)))
netns_packages = ./softroce ./softroce/internal/host ./softroce/internal/link ./cmd/e2e
on_rxe = VM_TIMEOUT=7200 cmd/e2e/rxe.sh
rxe_flags = $(or $(short),-timeout=110m) -run='$(RUN)' $(RDMA_TEST_FLAGS)
# Each machine keeps a processor busy.
test-rxe: all need-vm need-c out/cpeer ## on rxe0 in two machines (with RUN in one; WHOLE=1: with those that -short leaves to soft0)
ifeq ($(RUN),.)
	@$(call beside,2,test-rxe-e2e test-rxe-rest)
else
	$(on_rxe) selected rdma,rxe '$(rdma_packages)' $(rxe_flags)
endif
test-rxe-e2e: all need-vm need-c out/cpeer # one of the machines
	$(on_rxe) e2e rdma,rxe ./cmd/e2e $(rxe_flags)
test-rxe-rest: all need-vm need-c # the other one
	$(on_rxe) rest rdma,rxe '$(filter-out ./cmd/e2e/,$(rdma_packages))' $(rxe_flags) -- cabi,rxe ./cmd/e2e/cabi $(rxe_flags) -run='^TestReal' -- netns '$(netns_packages)' $(rxe_flags) -run='^TestNetns'
out/cpeer: cmd/e2e/cpeer/cpeer.c
	@mkdir -p out
	$(CC) -O2 -Wall -Wextra -Werror -o $@ $< -libverbs

on-the-wire: RDMA_TEST_FLAGS += -run Wire -update
test-lab on-the-wire: all need-vm ## make lab, and docs/on-the-wire.md against packets (on-the-wire writes it)
	$(tests) -count=1 -timeout 90m -tags lab -run '^TestLab' ./cmd/e2e $(RDMA_TEST_FLAGS)

test-device: all out/cpeer # tests that need a device, on this host's RDMA_TEST_DEVICE, as root
	go test -count=1 -p 1 -timeout 30m -run '$(RUN)' -tags rdma $(rdma_packages) $(RDMA_TEST_FLAGS)

test-packages: ## make, install, upgrade and remove the packages on a pristine Debian and under systemd
	@test/fresh/run.sh test/packages/check.sh

fresh: export FRESH_CMD := $(value CMD)
fresh: ## make demo, check and test (or CMD='make check') in a clone of HEAD on a pristine Debian: test/fresh
	@test/fresh/run.sh $${FRESH_CMD:+"$$FRESH_CMD"}

TARGETS = $(filter-out all-targets help clean test test-more test-device test-rxe-%,$(rules))
all-targets: ## run every rule once, as short as possible; before a release (TARGETS='…', WITHOUT='…')
	@tools/all-targets.sh $(filter-out $(WITHOUT),$(TARGETS))

apidiff: ## list the changes of the public API since the newest release of CHANGELOG.md, or BASE=COMMIT
	@tools/apidiff.sh $(BASE)

##@ Longer tests

COUNT ?= 1
stress: need-build ## all tests beside two busy loops per processor, with GOMAXPROCS 1, 2 and 8, COUNT times (RUN: packages)
	@trap 'kill $$(jobs -p)' EXIT; for i in $$(seq $$((2 * $$(nproc)))); do timeout 3h bash -c 'while :; do :; done' & done; \
	$(tests) -count $(COUNT) -cpu 1,2,8 -shuffle on -timeout 3h $$(go list ./... | grep -E -- '$(RUN)')
	RAWVERBS_STRESS=60s go test -count=1 -race -run TestAllMethods ./rc

NET_TIMES ?= 5
NET_SIZES ?= -rnet.conns 1000 -rnet.body 100000000 -rnet.ops 1000000
test-net: need-build # rnet for minutes: races, a bad network, 1,000 Conns, 100 MB, 10⁶ operations beside TCP, gRPC's interop cases
	go test -race -count $(NET_TIMES) -timeout 2h ./rnet
	go test -count $(NET_TIMES) -run TestRnetOnABadNetwork ./softroce -softroce.nettest
	go test -count 1 -timeout 1h ./rnet $(NET_SIZES)
	cd examples/rnet-grpc && go vet ./... && go test -count 1 ./...

# Without -fuzzminimizetime Go spends nearly all time on making inputs smaller that reach new code.
FUZZ ?= 2m
fuzz: need-build ## each fuzz function for FUZZ (2m), one after another (RUN='transport FuzzEngine')
	@found=$$(grep -roE --include='*_test.go' '^func Fuzz\w+' */ | sed -E 's|/[^/]*:func | |' | sort | grep -E -- '$(RUN)') || { \
		echo "fuzz: no fuzz function matches RUN='$(RUN)'" >&2; exit 1; }; \
	failed=; while read -r dir name; do \
		go test -fuzzminimizetime 10x -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZ) "./$$dir" </dev/null || failed+=" $$name"; done <<<"$$found"; \
	[[ -z $$failed ]] || { echo "fuzz: failed:$$failed" >&2; exit 1; }

in_vm = mkdir -p out/_tmp out/$@; VM_OUT=$$PWD/out/$@ GOTMPDIR=$$PWD/out/_tmp VM_TIMEOUT=3600 \
	go test -count=1 -p 1 -timeout 55m -tags rdma,rxe -exec $$PWD/cmd/e2e/in-vm.sh

conformance: export RDMA_TEST_RESULTS = $(CURDIR)/out/$@
conformance: need-vm ## the conformance cases on soft0, on a faulty network and on rxe0, as a table
	@rm -rf out/$@; mkdir -p out/$@
	go test -count=1 ./verbs/verbstest
	go test -count=1 -run Conformance ./softroce -softroce.seeds=1
	$(in_vm) -run '$(RUN)' $(RDMA_TEST_FLAGS) ./verbs/verbstest
	@go run ./verbs/verbstest/table out/$@

faults_test = -run '^TestFaults' ./cmd/e2e -faults
faults: need-build ## faults at every step of every job on soft0, as a table (RUN=/kill/)
	go test -count=1 -timeout 40m -parallel 12 $(faults_test) -faults.run='$(RUN)'
	@cat out/faults/soft0.md
faults-rxe: all need-vm # the same on rxe0 in a machine, with the job send
	$(in_vm) -v $(faults_test) -faults.run='$(or $(RUN:.=),/send)'

# The tables are in out/soak.
SOAK ?= -soak.connects 10000 -soak.clients 500 -soak.processes 50 -soak.busy 2
SOAK_RXE ?= -soak.connects 64 -soak.clients 64 -soak.processes 4
soak_test = -v -run '^TestSoak$$' ./cmd/e2e -soak.table ../../out/soak
soak: all need-vm ## 10,000 connects, 500 clients beside busy loops, 64 on rxe0; flat memory (SOAK, SOAK_RXE: flags)
	@mkdir -p out/soak
	go test -count=1 -timeout 55m $(soak_test)/soft0.md $(SOAK)
	$(in_vm) $(soak_test)/rxe0.md $(SOAK_RXE)

test-c-arm64: need-arm64 # ibv_devinfo and ibv_rc_pingpong on the libraries for arm64, in qemu's user mode
	@mkdir -p out/arm64
	@$(MAKE) libraries L=out/arm64/ GOARCH=arm64 CC=aarch64-linux-gnu-gcc
	@cmd/e2e/cabi/arm64.sh

# It is slow: on a busy host the cases would time out without VM_ICOUNT. It keeps freed memory, so TestLeaks would fail.
asan: export VM_ICOUNT = 1
asan: need-vm # the C code of package verbs under the address sanitizer, also on rxe0 in a machine
	go test -count=1 -asan ./verbs
	$(in_vm) -asan -skip TestLeaks -run '$(RUN)' $(RDMA_TEST_FLAGS) ./verbs ./verbs/verbstest

simulate: need-build ## the transport on simulated networks; drawings are in out/simulate (RUN: scenarios)
	go run ./softroce/internal/simulate/draw -run '$(RUN)'

# ROUNDS=3, BENCHTIME=1x and NET_TIME=50ms for a quick look, BENCH_FLAGS=-markdown for docs/benchmarks.md.
ROUNDS ?= 7
BENCHTIME ?= 2s
NET_TIME ?= 300ms
build_bench = @rm -rf out/$@; mkdir -p out/$@; CGO_ENABLED=0 go build -o out/$@/ ./test/versus/bench
measure = out/$@/bench -rounds $(ROUNDS) -o out/$@/
bench: inside = perftest rxe0
bench: outside = sockets
bench-cabi: inside = cabi-rxe0
bench-cabi: outside = cabi
bench bench-cabi: all need-vm ## the commands beside perftest, rxe0 and datagrams; bench-cabi and others: docs/benchmarks.md
	$(build_bench)
	VM_TIMEOUT=1500 VM_OUT=$$PWD/out/$@ test/vm/run.sh 'for part in $(inside); do $(measure)$$part.json $$part || exit; done'
	$(measure)$(outside).json $(outside)
	@out/$@/bench $(BENCH_FLAGS) table out/$@/*.json

# Both machines lose packets that they receive. The server runs until the client's machine has ended.
bench-lossy: all need-vm # soft0 and rxe0 write over a wire that loses packets
	$(build_bench)
	for loss in 0% 0.1% 1%; do VM_TIMEOUT=1500 VM_OUT=$$PWD/out/$@ LAB_PACKETS=1 \
		LAB_SERVER="test/vm/lossy.sh $$loss || exit; trap : TERM; ./rdma_server rxe0 18515 1 >out/$@/server.log || true" \
		LAB_CLIENT="test/vm/lossy.sh $$loss && $(measure)$$loss.json -loss $$loss -address 10.0.0.1 lossy" \
		test/vm/lab.sh || exit; rm out/$@/wire.pcap; done
	@out/$@/bench $(BENCH_FLAGS) table out/$@/*.json

bench-net: need-build # rnet beside TCP: echoes, writes and gRPC calls on soft0
	go test -count 1 -run '^TestSpeed$$' -v ./rnet -rnet.speed $(NET_TIME)
	cd examples/rnet-grpc && go test -count 1 -run '^TestSpeed$$' -v . -speed $(NET_TIME)
bench-soft: # soft0 beside TCP and UDP
	CGO_ENABLED=0 go test -run '^$$' -bench . -benchtime $(BENCHTIME) ./softroce
bench-rxe: need-vm # the soft device beside rxe0, in a machine
	$(in_vm) -run '^$$' -bench . -benchtime $(BENCHTIME) ./softroce/internal/interop
bench-c: need-vm # posting, polling and waiting beside C, on rxe0 in a machine
	$(in_vm) -run '^$$' -bench '$(RUN)' -benchtime 1x ./test/versus
bench-instructions: all need-count # per message of rdma_client and of perftest, on a device that does nothing
	@test/versus/instructions.sh

help: # print this list
	@sed -nE 's/^##@ /\n/p; s/^([a-z][a-z0-9 -]*):.*## /  \1\t/p' Makefile | expand -t16
