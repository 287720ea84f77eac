# Targets for the machine with a real rxe0; included by the root Makefile.
#
#   make vm CMD='ibv_devinfo -v'     run CMD in it; without CMD, a shell
#   make lab JOB=send                two machines, the job between them, the wire captured
#   make lab CLIENT_ARGS='-s hi'     the same with options for the client; SERVER_ARGS: for the server
#   make lab SERVER='ib_write_bw -x 1' CLIENT='ib_write_bw -x 1 10.0.0.1'    any two commands
#   make vm-install                  install the packages it needs, no more
#   make vm-clean                    remove the cached kernel
#
# Variables of the environment (VM_TIMEOUT, VM_OUT, ...): test/vm/README.md.

.PHONY: vm lab vm-install vm-clean

# $(value) and := hand CMD on untouched: a $HOME in it is the machine's.
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

vm-install:
	@test/vm/install.sh

# Not the directory: it may be a mount point, as in make fresh.
vm-clean:
	rm -rf "$${XDG_CACHE_HOME:-$$HOME/.cache}"/rawverbs/vm/*
