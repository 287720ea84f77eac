# Targets for the machine with a real rxe0; included by the root Makefile.
#
#   make vm CMD='ibv_devinfo -v'     run CMD in it; without CMD, a shell
#   make vm-install                  install the packages it needs, no more
#   make vm-clean                    remove the cached kernel
#
# Variables of the environment (VM_TIMEOUT, VM_OUT, ...): test/vm/README.md.

.PHONY: vm vm-install vm-clean

# $(value) and := hand CMD on untouched: a $HOME in it is the machine's.
unexport CMD
vm: export VM_CMD := $(value CMD)
vm:
	@test/vm/run.sh "$$VM_CMD"

vm-install:
	@test/vm/install.sh

vm-clean:
	rm -rf "$${XDG_CACHE_HOME:-$$HOME/.cache}/rawverbs/vm"
