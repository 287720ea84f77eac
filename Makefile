# make help lists the rules. A rule that lacks a package prints the line that installs it, and fails; make setup installs
# what make test needs.

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

# go test for all tests: it prints a line per package, and ends with one screen about what failed.
tests = RUN_NAME=$@ go run ./test/run

# The tests of test/e2e wait most of the time, so they begin first, and -p 3 runs two other packages beside them.
e2e_first = ./test/e2e ./...

##@ Building

# VERSION=1.2.3 names the programs; otherwise they have the version that Go takes from git.
version_flag = $(if $(VERSION),-ldflags=-X=github.com/rawverbs/rawverbs/internal/version.linked=v$(VERSION))

# BUILT=1: make test has built the programs, and its parts, which run beside each other, must not.
unexport BUILT
.PHONY: all
all: $(if $(BUILT),,need-build libraries engine) ## build the programs of cmd/: ./rdma_server, ./rdma_client, ./rdma_lab, ./rawverbs (the default)
	@$(if $(BUILT),:,echo "go build $(version_flag) -o ./ ./cmd/..."; go build $(version_flag) -o ./ ./cmd/...)

# The libraries that ./rawverbs preloads. Go's part has no libibverbs in it, and its threads send
# each other no SIGURG, which belongs to the program.
core_ldflags = -s -w -X=runtime.godebugDefault=asyncpreemptoff=1
shim_flags = -std=gnu11 -O2 -g -Wall -Wextra -Werror -fPIC -shared -Wl,-z,nodelete -Wl,-z,now -Wl,--version-script=cabi/shim/shim.map
core_flags = -tags nolibibverbs -buildmode=c-shared -trimpath -ldflags="$(core_ldflags)"
.PHONY: libraries
libraries: librawverbs.so need-build
	go build $(core_flags) -o librawverbs-core.so ./cabi/core
	@rm -f librawverbs-core.h
librawverbs.so: $(wildcard cabi/shim/* cabi/*.h) | need-build
	$(CC) $(shim_flags) -o $@ $(filter %.c,$^) -ldl -lpthread

# The laboratory's engine, for browsers and node. ./rdma_lab embeds web/dist. The files there keep
# their times if nothing has changed, so that ./rdma_lab is not linked again.
.PHONY: engine
engine: need-build ## build the laboratory's engine for browsers: out/engine.wasm, and in web/dist for ./rdma_lab
ifndef BUILT
	@mkdir -p out
	CGO_ENABLED=0 GOOS=js GOARCH=wasm go build -trimpath -buildvcs=false -ldflags='-s -w' -o out/engine.wasm ./web/engine
	@[[ web/dist/engine.wasm.gz -nt out/engine.wasm ]] || gzip -9 -n -c out/engine.wasm >web/dist/engine.wasm.gz
	@cmp -s "$$(go env GOROOT)/lib/wasm/wasm_exec.js" web/dist/wasm_exec.js || cp "$$(go env GOROOT)/lib/wasm/wasm_exec.js" web/dist/
else
	@:
endif

# The packages of npm. Their list is web/package-lock.json.
web/node_modules/.package-lock.json: web/package-lock.json web/package.json | need-web
	cd web && npm ci --no-fund --no-audit
	@touch $@

.PHONY: web
web: web/node_modules/.package-lock.json ## build the pages with node: web/dist, which is committed
	cd web && npx tsc --noEmit && node build.mjs

# ./rdma_lab embeds web/dist, so it is linked after the bundles are built.
.PHONY: laboratory
laboratory: engine ## write the laboratory as one file that opens from disk: out/laboratory.html
	CGO_ENABLED=0 go build -o out/rdma_lab ./cmd/rdma_lab
	out/rdma_lab serve --file out/laboratory.html

# The sample is a recorded run with the captures of both ends.
sample = $(addprefix internal/report/testdata/,write-read.jsonl client.pcap server.pcap)
.PHONY: site
site: laboratory web/node_modules/.package-lock.json ## build a static site that any web server can host: laboratory, report, docs, benchmarks: out/site
	CGO_ENABLED=0 go run ./cmd/rdma_lab report --output out/sample.html $(sample)
	node web/site.mjs out/site out/laboratory.html out/sample.html

.PHONY: lab-web
lab-web: laboratory ## build the laboratory and serve it; a browser opens if there is one (FOR=2s ends it)
	@FOR=$(FOR) tools/lab-web.sh

.PHONY: rebuild
rebuild: clean all ## clean, then all

# sudo often finds no Go, so this target builds nothing.
PREFIX ?= /usr/local
programs = $(notdir $(wildcard cmd/*))
.PHONY: install
install: ## install what make has built: programs in PREFIX/bin, libraries in PREFIX/lib/rawverbs (PREFIX=/usr/local)
	@for file in $(programs) librawverbs.so librawverbs-core.so; do [[ -e $$file ]] || { echo "install: there is no $$file; try: make && sudo make install" >&2; exit 1; }; done
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/rawverbs
	install $(programs) $(DESTDIR)$(PREFIX)/bin
	install -m 644 librawverbs.so librawverbs-core.so $(DESTDIR)$(PREFIX)/lib/rawverbs

.PHONY: packages
packages: ## build, and make a Debian package, an RPM package and an archive in out/packages (VERSION=1.2.3)
	@deploy/packages.sh

.PHONY: clean
clean: ## remove the programs and out/; keep the caches (make vm-clean removes the kernel)
	rm -rf out web/dist/engine.wasm.gz web/dist/wasm_exec.js
	rm -f $(programs) librawverbs.so librawverbs-core.so

##@ Running

.PHONY: demo
demo: ## run the main job: rdma_server and rdma_client on soft0; installs nothing
	@export CGO_ENABLED; CGO_ENABLED=$$(tools/need.sh cgo); go build -o ./ ./cmd/...
	@test/e2e/demo.sh soft0 127.0.0.1

.PHONY: demo-rxe
demo-rxe: all need-vm ## the same on rxe0, the kernel's device, in a virtual machine
	@test/vm/run.sh 'test/e2e/demo.sh rxe0 10.99.0.1'

##@ Testing

# check needs Go and nothing else, and installs nothing. The tests of C code are left out without a compiler.
.PHONY: check
check: ## the tests for every edit, on any machine: gofmt, vet, all packages, the real binaries on soft0; installs nothing
	@bad=$$(find . \( -path ./out -o -path ./web/node_modules \) -prune -o -name '*.go' -print0 | xargs -0 gofmt -l); [[ -z $$bad ]] || { echo "gofmt -w these: $$bad" >&2; exit 1; }
	@export CGO_ENABLED; CGO_ENABLED=$$(tools/need.sh cgo); echo "go vet ./..."; go vet ./... && $(tests) -p 3 $(e2e_first)

# The tests run on linux/amd64; docs/setup.md has the other systems.
# test-wasm builds what runs on js/wasm.
systems = linux/amd64 linux/386 linux/arm linux/arm64 linux/s390x linux/riscv64 darwin/arm64 freebsd/amd64
.PHONY: static
static: ## check the types of all packages and tests for other systems, without cgo
	go run ./test/systems $(systems)

.PHONY: unit
unit: need-build ## unit tests of package verbs with its calls through cgo, and without C
	@$(tests) -tags cgocalls ./verbs/...
	@CGO_ENABLED=0 $(tests) ./verbs/...

# The packages that the laboratory's engine consists of.
wasm_packages = ./qpstate ./softroce/internal/packet ./softroce/internal/transport ./softroce/simulated ./internal/workbench/...
.PHONY: test-wasm
test-wasm: engine need-node ## unit tests of the laboratory's engine, built for js/wasm, under node
	CGO_ENABLED=0 GOOS=js GOARCH=wasm go test -exec="$$(go env GOROOT)/lib/wasm/go_js_wasm_exec" $(wasm_packages)
	node web/engine/test.cjs "$$(go env GOROOT)" out/engine.wasm

# RUN=regexp selects tests; WHOLE=1 runs the long ones too.
.PHONY: test-web
test-web: laboratory web/node_modules/.package-lock.json ## test the pages in Chromium, and compare web/dist with its sources (WHOLE=1: all lessons and pictures)
	cd web && npx tsc --noEmit && node build.mjs ../out/dist
	@for file in out/dist/*; do cmp $$file web/dist/$${file##*/} || { echo "web/dist is not what its sources give; try: make web" >&2; exit 1; }; done
	CGO_ENABLED=0 go build -o out/test-web/ ./cmd/rdma_server ./cmd/rdma_client ./cmd/rdma_lab
	cd web && WHOLE=$(WHOLE) node --test $(if $(filter-out .,$(RUN)),--test-name-pattern='$(RUN)') test/*.test.mjs

IMAGES ?= docs/images
.PHONY: lab-pictures
lab-pictures: laboratory web/node_modules/.package-lock.json need-pictures ## draw the pictures of docs/laboratory.md anew (IMAGES=docs/images)
	@mkdir -p $(IMAGES)
	cd web && IMAGES=$(abspath $(IMAGES)) node --test test/pictures.mjs

# The longest parts begin first, JOBS at once: one per processor, so that the machines do not stand still for long.
JOBS ?= $(shell nproc)
parts = test-rxe-e2e test-rxe-rest race check lint test-c test-web test-lab unit static test-ops test-wasm
.PHONY: test
test: machine setup ## all tests: check, static, unit, lint, race, test-wasm (the laboratory under node), test-web (the pages in Chromium), test-ops (Prometheus, Kubernetes), test-c (C programs on soft0), test-rxe (on rxe0 in a machine), test-lab (two machines)
	@$(MAKE) all out/cpeer
	@tools/parts.sh $(JOBS) $(parts)
.PHONY: machine
machine:
	@tools/machine.sh
	@echo "make test: all passed"

.PHONY: test-more
test-more: setup stress ## the tests that make test leaves out so that it stays short: stress, every test on rxe0
	@$(MAKE) test-rxe WHOLE=1
	@echo "make test-more: all passed"

# CMD='make check' runs another command; FRESH_USER, FRESH_COLD and FRESH_DOCKER choose what it gets. See
# test/fresh/README.md.
.PHONY: fresh
fresh: export FRESH_CMD := $(value CMD)
fresh: ## make demo && make check && make test (or CMD) in a clone of HEAD on a pristine Debian
	@test/fresh/run.sh $${FRESH_CMD:+"$$FRESH_CMD"}

# TARGETS='…' runs only these; WITHOUT='…' leaves these out.
.PHONY: all-targets
all-targets: ## run every target of this list once, as short as possible, and print a table; before a release
	@tools/all-targets.sh $(if $(WITHOUT),--without '$(WITHOUT)') $(TARGETS)

.PHONY: fresh-clean
fresh-clean: ## remove the pristine Debian and the caches of fresh
	@$$( ((EUID == 0)) || echo sudo) rm -rf "$${XDG_CACHE_HOME:-$$HOME/.cache}/rawverbs/fresh"

# The steps that are too long for every edit; NET_OPS and NET_TIMES make them longer or shorter.
NET_OPS ?= 1000000
NET_TIMES ?= 20
.PHONY: test-net
test-net: need-build ## rnet for minutes: nettest again and again, 1,000 Conns, 100 MB bodies, 10⁶ operations beside TCP, gRPC's interop cases
	go test -race -count $(NET_TIMES) -run 'Nettest|Accept|Listener|Backlog' ./rnet
	go test -count 3 -run TestRnetOnABadNetwork ./softroce -softroce.nettest
	go test -count 1 -run 'ManyConns|HTTP' ./rnet -rnet.conns 1000 -rnet.body 100000000
	go test -count 1 -run AsTCP -v ./rnet -rnet.ops $(NET_OPS)
	cd examples/rnet-grpc && go vet ./... && go test -count 1 ./...

# Left out are test/e2e, whose programs are built without the race detector, and the simulator, which has
# one goroutine.
raced = $(shell go list ./... | grep -vE '/(test/e2e|internal/simulate)$$')
.PHONY: race
race: need-build ## unit tests under the race detector
	@$(tests) -race $(raced)

# RUN=regexp selects packages.
STRESS ?= 8m
.PHONY: stress
stress: need-build ## repeat each package's tests for STRESS (8m) beside busy loops, with GOMAXPROCS 1, 2 and 8, and print the failures per thousand runs; then a minute of all of rc's methods beside each other
	@tools/stress.sh $(STRESS) '$(RUN)'
	RAWVERBS_STRESS=60s go test -count=1 -race -run TestAllMethods ./rc

# RUN=regexp selects tests; WHOLE=1 runs every combination of flags.
.PHONY: test-c test-c-soak
c_test = -count=1 -tags cabi
test-c: all need-c ## run programs in C and Python on soft0 through ./rawverbs (WHOLE=1: every combination, ten minutes)
	$(tests) $(c_test) $(if $(WHOLE),,-short) -timeout 30m -run '$(RUN)' ./test/cabi

SOAK ?= 1000
test-c-soak: all need-c ## run ibv_rc_pingpong SOAK (1000) times on a host with two busy loops per processor
	go test $(c_test) -timeout 180m -v -run TestSoak ./test/cabi -soak $(SOAK)

# RUN=kill selects runs by their names: fault, step, end, job.
.PHONY: faults
faults: need-build ## faults at every step of every job: kill, stop, cut, delay, loss, garbling; on soft0, as a table (RUN=/kill/ selects faults)
	go test -count=1 -timeout 40m -v -run '^TestFaults' ./test/e2e -args -faults '-faults.run=$(RUN)' -test.parallel 12 | grep -vE '^ *(=== (RUN|PAUSE|CONT)|--- PASS|PASS)'

# RUN=/bulk selects another job.
.PHONY: faults-rxe
faults-rxe: all need-vm ## the same on rxe0 in a machine, with the job send
	@mkdir -p out/faults
	VM_OUT=$(CURDIR)/out/faults; export VM_OUT; $(in_vm) VM_TIMEOUT=3000 go test -count=1 -timeout 45m -v -run '^TestFaults' -tags rdma,rxe -exec $(CURDIR)/test/e2e/in-vm.sh ./test/e2e -args -faults '-faults.run=$(if $(filter-out .,$(RUN)),$(RUN),/send)' | grep -vE '^ *(=== (RUN|PAUSE|CONT)|--- PASS|PASS)'

# SOAK_CONNECTS clients one after another, then SOAK_CLIENTS (in the machine SOAK_RXE) at once; of these
# SOAK_PROCESSES are processes. The tables are in out/soak.
SOAK_CONNECTS ?= 10000
SOAK_CLIENTS ?= 500
SOAK_PROCESSES ?= 50
SOAK_RXE ?= 64
soak_test = go test -count=1 -timeout 55m -v -run '^TestSoak$$'
.PHONY: soak
soak: all need-vm ## load: 10,000 connects, 500 clients at once beside two busy loops per processor, 64 on rxe0; flat memory (SOAK_CONNECTS SOAK_CLIENTS SOAK_RXE)
	@mkdir -p out/soak
	$(soak_test) ./test/e2e -soak.connects $(SOAK_CONNECTS) -soak.clients $(SOAK_CLIENTS) -soak.processes $(SOAK_PROCESSES) -soak.busy 2 -soak.table $(CURDIR)/out/soak/soft0.md
	VM_OUT=$(CURDIR)/out/soak; export VM_OUT; $(in_vm) $(soak_test) -tags rdma,rxe -exec $(CURDIR)/test/e2e/in-vm.sh ./test/e2e -soak.connects $(SOAK_RXE) -soak.clients $(SOAK_RXE) -soak.processes 4 -soak.table $(CURDIR)/out/soak/rxe0.md

.PHONY: test-c-arm64
test-c-arm64: need-arm64 ## build the libraries for arm64, and run ibv_devinfo and ibv_rc_pingpong on them in qemu's user mode
	@mkdir -p out/arm64
	aarch64-linux-gnu-gcc $(shim_flags) -o out/arm64/librawverbs.so cabi/shim/*.c -ldl -lpthread
	GOARCH=arm64 CC=aarch64-linux-gnu-gcc go build $(core_flags) -o out/arm64/librawverbs-core.so ./cabi/core
	@test/cabi/arm64.sh

# The packages with tests that need a device (build tag rdma).
rdma_packages = $(sort $(dir $(shell grep -rlE --include='*_test.go' '^//go:build.*\<rdma\>|internal/testdevice"' .)))
# Their tests with the build tag netns need a network namespace or a cgroup, and so the rights of root in the machine.
netns_packages = ./softroce ./softroce/internal/host ./softroce/internal/link ./test/e2e
# RUN=regexp selects tests, RDMA_TEST_FLAGS adds flags: make test-rxe RUN=TestMain RDMA_TEST_FLAGS=-v
RUN ?= .
rdma_test = go test -count=1 -p 1 -timeout 19m -run '$(RUN)' $(RDMA_TEST_FLAGS)

# go test -exec in-vm.sh needs the test binary in the repository, which the machine shares.
in_vm = mkdir -p out/_tmp; GOTMPDIR=$(CURDIR)/out/_tmp VM_TIMEOUT=1200

# A C program that the tests use as a peer.
out/cpeer: test/e2e/cpeer/cpeer.c
	@mkdir -p out
	$(CC) -O2 -Wall -Wextra -Werror -o $@ $< -libverbs

# A machine keeps one processor busy, so two machines share the tests. With -short some run on soft0 only, in make check:
# peers that fail, load, what hardly depends on the device.
on_rxe = VM_TIMEOUT=7200 test/e2e/rxe.sh
on_rxe_flags = $(if $(WHOLE),-timeout=110m,-short) -run='$(RUN)' $(RDMA_TEST_FLAGS)
.PHONY: test-rxe test-rxe-e2e test-rxe-rest
test-rxe: all need-vm need-c out/cpeer ## tests that need a device, on rxe0, in two machines at once (RUN=regexp selects tests, in one machine; WHOLE=1 runs every combination)
ifeq ($(RUN),.)
	@tools/parts.sh 2 test-rxe-e2e test-rxe-rest
else
	$(on_rxe) selected rdma,rxe '$(rdma_packages)' $(on_rxe_flags)
endif
test-rxe-e2e: all need-vm need-c out/cpeer
	$(on_rxe) e2e rdma,rxe ./test/e2e $(on_rxe_flags)
test-rxe-rest: all need-vm need-c
	$(on_rxe) rest rdma,rxe '$(filter-out ./test/e2e/,$(rdma_packages))' $(on_rxe_flags) -- cabi,rxe ./test/cabi $(on_rxe_flags) -run='^TestReal' -- netns '$(netns_packages)' $(on_rxe_flags) -run='^TestNetns'

# Tests that use tshark (build tag lab).
on_the_wire = -count=1 -timeout 90m -tags lab $(RDMA_TEST_FLAGS)

.PHONY: test-lab
test-lab: all need-vm ## test two machines with a wire between them (make lab), and compare docs/on-the-wire.md with real packets
	$(tests) $(on_the_wire) -run '^TestLab' ./test/e2e

.PHONY: on-the-wire
on-the-wire: all need-vm ## update the packets in docs/on-the-wire.md from runs on soft0
	go test $(on_the_wire) -run TestLabWire ./test/e2e -update

.PHONY: test-device
test-device: all out/cpeer ## tests that need a device, on this host's RDMA_TEST_DEVICE, as root
	@[[ -n "$${RDMA_TEST_DEVICE:-}" ]] || { echo "test-device needs RDMA_TEST_DEVICE; try: make test-device RDMA_TEST_DEVICE=mlx5_0 (rdma link lists the devices)" >&2; exit 1; }
	$(rdma_test) -tags rdma $(rdma_packages)

# RUN=regexp selects functions.
FUZZ ?= 2m
.PHONY: fuzz
fuzz: need-build ## run each fuzz function for FUZZ (2m), one after another, and print a table
	@tools/fuzz.sh $(FUZZ) '$(RUN)'

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
bench: all need-vm ## compare rdma_server and rdma_client with perftest, rxe0 and datagrams, in one table (ROUNDS=7)
	@rm -rf out/bench; mkdir -p out/bench
	CGO_ENABLED=0 go build -o out/bench/bench ./test/versus/bench
	VM_TIMEOUT=1500 VM_OUT=$(CURDIR)/out/bench test/vm/run.sh \
		'for part in perftest rxe0; do out/bench/bench -rounds $(ROUNDS) -o $$VM_OUT/$$part.json $$part || exit; done'
	out/bench/bench -rounds $(ROUNDS) -o out/bench/sockets.json sockets
	@out/bench/bench $(BENCH_FLAGS) table out/bench/*.json

.PHONY: bench-cabi
bench-cabi: all need-vm ## compare perftest on the software device with our own programs there, and with perftest on rxe0, in a machine
	@rm -rf out/bench-cabi; mkdir -p out/bench-cabi
	CGO_ENABLED=0 go build -o out/bench-cabi/bench ./test/versus/bench
	VM_TIMEOUT=1500 VM_OUT=$(CURDIR)/out/bench-cabi test/vm/run.sh \
		'out/bench-cabi/bench -rounds $(ROUNDS) -o $$VM_OUT/cabi-rxe0.json cabi-rxe0'
	out/bench-cabi/bench -rounds $(ROUNDS) -o out/bench-cabi/cabi.json cabi
	@out/bench-cabi/bench $(BENCH_FLAGS) table out/bench-cabi/*.json

# Both machines lose packets that they receive. The server runs until the client's machine has ended.
bench_lossy = $(CURDIR)/out/bench-lossy
.PHONY: bench-lossy
bench-lossy: all need-vm ## write to rxe0 of a second machine over a wire that loses packets: from the software device, and from rxe0 (ROUNDS=7)
	@rm -rf $(bench_lossy); mkdir -p $(bench_lossy)
	CGO_ENABLED=0 go build -o $(bench_lossy)/bench ./test/versus/bench
	for loss in 0% 0.1% 1%; do VM_TIMEOUT=1500 VM_OUT=$(bench_lossy) LAB_PACKETS=1 \
		LAB_SERVER="test/vm/lossy.sh $$loss || exit; trap : TERM; ./rdma_server rxe0 18515 1 >$(bench_lossy)/server.log || true" \
		LAB_CLIENT="test/vm/lossy.sh $$loss && out/bench-lossy/bench -rounds $(ROUNDS) -loss $$loss -address 10.0.0.1 -o $(bench_lossy)/$$loss.json lossy" \
		test/vm/lab.sh || exit; rm $(bench_lossy)/wire.pcap; done
	@$(bench_lossy)/bench $(BENCH_FLAGS) table $(bench_lossy)/*.json

# BENCHTIME=1x for a quick look.
BENCHTIME ?= 2s
.PHONY: bench-go
bench-go: need-build ## benchmarks of the hot path
	go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...

# NET_TIME=50ms for a quick look.
NET_TIME ?= 300ms
.PHONY: bench-net
bench-net: need-build ## rnet beside TCP: echoes, writes and gRPC calls on soft0, medians of seven rounds in turn
	go test -count 1 -run '^TestSpeed$$' -v ./rnet -rnet.speed $(NET_TIME) | grep -vE '^(===|ok|PASS)'
	cd examples/rnet-grpc && go test -count 1 -run '^TestSpeed$$' -v . -speed $(NET_TIME) | grep -vE '^(===|ok|PASS|serving)'

.PHONY: bench-soft
bench-soft: ## compare the speed of soft0 with TCP and UDP
	CGO_ENABLED=0 go test -run '^$$' -bench . -benchtime $(BENCHTIME) ./softroce

.PHONY: simulate
simulate: need-build ## run the soft device's transport on simulated networks; the drawings are in out/simulate (RUN=regexp selects scenarios)
	go run ./softroce/internal/simulate/draw -run '$(RUN)'

.PHONY: bench-rxe
bench-rxe: need-vm ## compare the speed of the soft device with rxe0, in a machine
	$(in_vm) go test -run '^$$' -bench . -benchtime $(BENCHTIME) -tags rdma,rxe -exec $(CURDIR)/test/e2e/in-vm.sh ./softroce/internal/interop

.PHONY: bench-c
bench-c: need-vm ## compare posting, polling and waiting with an equivalent C program, on rxe0 in a machine
	$(in_vm) VM_TIMEOUT=1500 go test -timeout 30m -run '^$$' -bench '$(RUN)' -benchtime 1x -tags rdma,rxe -exec $(CURDIR)/test/e2e/in-vm.sh ./test/versus

.PHONY: bench-instructions
bench-instructions: all need-count ## count the instructions per message of rdma_client and of perftest, on a device that does nothing
	@test/versus/instructions.sh

# The packages with files that the build tag rdma leaves out, with other tags.
soft_packages = $(sort $(dir $(shell grep -rlE --include='*.go' '^//go:build.*!rdma' .)))

scripts = $(sort $(shell find . \( -path ./out -o -path ./web/node_modules \) -prune -o -name '*.sh' -print)) .ci/run
.PHONY: apidiff
apidiff: ## list the changes of the public API since the newest release of CHANGELOG.md, or since BASE=COMMIT
	@tools/apidiff.sh $(BASE)

.PHONY: lint
lint: need-lint ## run golangci-lint (pinned in tools/go.mod) and shellcheck
	$(tool) golangci-lint run --build-tags rdma,rxe,cabi,netns
	$(tool) golangci-lint run --build-tags lab,operations,netns $(soft_packages)
	shellcheck $(scripts)
	shellcheck -s dash test/vm/init

##@ The machine with rxe0

include test/vm/vm.mk

.PHONY: test-packages
test-packages: ## make the packages, install, upgrade and remove them on a pristine Debian and under systemd; inspect the rpm
	@test/fresh/run.sh test/packages/check.sh

# Kubernetes' types are a module of their own, so that the libraries do not depend on them.
.PHONY: test-ops
test-ops: need-build need-ops ## operations: a real Prometheus scrapes a server, with the alerts and the dashboard of deploy/; the systemd unit is valid; versions; a job in an empty root; the Kubernetes manifests are valid
	$(tests) -count 1 -tags operations -run '^TestOps' ./test/e2e
	cd deploy/kubernetes && go test ./...

.PHONY: setup
setup: ## install what make test needs, with apt-get; no other rule installs, but test and fresh
	@tools/need.sh --install build lint vm c node web ops
need-%:
	@tools/need.sh build $*

.PHONY: help
help: ## print this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {print "\n" substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' Makefile
	@sed -n 's/^#   make/  make/p' test/vm/vm.mk
