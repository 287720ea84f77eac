#!/bin/bash
# Runs a command in one of the two machines of lab.sh:
#
#   side.sh server|client 'CMD'
#
# Both machines share $VM_OUT. Files there signal progress. The client's command starts when
# the server listens on a TCP port. A machine stays up until the other command has ended, so
# that the last packets are not lost.
set -uo pipefail

me=$1 cmd=$2
case $me in server) other=client ;; client) other=server ;; *) exit 2 ;; esac
start=60    # seconds for the server to listen; a busy host needs many
patience=30 # seconds for a command to end after the other

nap() { read -rt 0.1 -u "$never"; } # sleeps without starting a program, which takes 0.1 s here
exec {never}<> <(:)
say() { echo "lab: $*"; }

listening() { # succeeds if any program listens; no other program of this machine does
	local line
	while read -r line; do
		if [[ $line == *": "*" 0A "* ]]; then return 0; fi
	done < <(cat /proc/net/tcp /proc/net/tcp6)
	return 1
}

if [[ $me == client ]]; then
	until [[ -e $VM_OUT/server-listens ]]; do
		if [[ -e $VM_OUT/server-ended ]]; then
			say "not started: the server ended before it listened"
			: >"$VM_OUT/client-ended"
			exit 1
		fi
		nap
	done
fi

say "$ $cmd"
set -m # starts the command in a new process group
bash -c "$cmd" </dev/null &
pid=$!
set +m

began=$SECONDS state='' last=''
while kill -0 "$pid" 2>/dev/null; do
	if [[ $me == server && -z $state ]]; then
		if listening; then
			state=ready
		elif ((SECONDS - began >= start)); then
			say "the server does not listen on a TCP port after $start s; starting the client anyway"
			state=ready
		fi
		if [[ -n $state ]]; then : >"$VM_OUT/server-listens"; fi
	fi
	if [[ -e $VM_OUT/$other-ended ]]; then
		: "${last:=$SECONDS}"
		if ((SECONDS - last >= 2 * patience)); then
			kill -KILL -- -"$pid"
		elif ((SECONDS - last >= patience)) && [[ $state != stopped ]]; then
			say "the $other ended $patience s ago: stopping the $me"
			state=stopped
			kill -TERM -- -"$pid"
		fi
	fi
	nap
done
wait "$pid"
status=$?
: >"$VM_OUT/$me-ended"
for ((i = 0; i < 10 * 3 * patience; i++)); do
	[[ ! -e $VM_OUT/$other-ended ]] || break
	nap
done
exit $status
