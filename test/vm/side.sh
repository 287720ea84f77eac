#!/bin/bash
# Runs a command at one end of the wire of lab.sh, inside its machine:
#
#   side.sh server|client 'CMD'
#
# The ends know each other's progress from files in $VM_OUT, which both share:
# the client's command begins when the server's listens on a TCP port, and an
# end stays on the wire until the other has ended, so that no last packet is lost.
set -uo pipefail

me=$1 cmd=$2
case $me in server) other=client ;; client) other=server ;; *) exit 2 ;; esac
start=30    # seconds for the server to listen
patience=10 # seconds for an end to end after the other

nap() { read -rt 0.1 -u "$never"; } # without a program, which costs 0.1 s here
exec {never}<> <(:)
say() { echo "lab: $*"; }

listening() { # of all in this machine, since nothing else listens in it
	local line
	while read -r line; do
		if [[ $line == *": "*" 0A "* ]]; then return 0; fi
	done < <(cat /proc/net/tcp /proc/net/tcp6)
	return 1
}

if [[ $me == client ]]; then
	until [[ -e $VM_OUT/server-listens ]]; do
		if [[ -e $VM_OUT/server-ended ]]; then
			say "not begun: the server ended before it listened"
			: >"$VM_OUT/client-ended"
			exit 1
		fi
		nap
	done
fi

say "$ $cmd"
set -m # a process group of its own
bash -c "$cmd" </dev/null &
pid=$!
set +m

began=$SECONDS told='' last=''
while kill -0 "$pid" 2>/dev/null; do
	if [[ $me == server && -z $told ]]; then
		if listening; then
			told=yes
		elif ((SECONDS - began >= start)); then
			say "no TCP port is listened on after $start s; the client begins nevertheless"
			told=yes
		fi
		if [[ -n $told ]]; then : >"$VM_OUT/server-listens"; fi
	fi
	if [[ -e $VM_OUT/$other-ended ]]; then
		: "${last:=$SECONDS}"
		if ((SECONDS - last >= 2 * patience)); then
			kill -KILL -- -"$pid"
		elif ((SECONDS - last >= patience)) && [[ $told != stopped ]]; then
			say "the $other ended $patience s ago: stopping this end"
			told=stopped
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
