# Targets for the machine with a real rxe0; included by the root Makefile.
#
#   make vm CMD='ibv_devinfo -v'     run CMD in a machine; without CMD, run a shell
#   make lab JOB=send                run a job between two machines and capture the wire
#   make lab CLIENT_ARGS='-s hi'     the same with options for the client; SERVER_ARGS: for the server
#   make lab SERVER='ib_write_bw -x 1' CLIENT='ib_write_bw -x 1 10.0.0.1'    run any two commands
#   make vm-clean                    remove the cached kernel
#
# Environment variables (VM_TIMEOUT, VM_OUT, ...): test/vm/README.md.

.PHONY: vm lab vm-clean

# $(value) and := pass CMD without expansion, so $HOME in CMD is that of the machine.
unexport CMD
vm: export VM_CMD := $(value CMD)
vm:
	@test/vm/run.sh "$$VM_CMD"

unexport JOB SERVER_ARGS CLIENT_ARGS SERVER CLIENT
lab: export LAB_JOB := $(value JOB)
lab: export LAB_SERVER_ARGS := $(value SERVER_ARGS)
lab: export LAB_CLIENT_ARGS := $(value CLIENT_ARGS)
lab: export LAB_SERVER := $(value SERVER)
lab: export LAB_CLIENT := $(value CLIENT)
lab: all need-vm
	@test/vm/lab.sh

# Keep the directory itself: it may be a mount point, as in make fresh.
vm-clean:
	rm -rf "$${XDG_CACHE_HOME:-$$HOME/.cache}"/rawverbs/vm/*
