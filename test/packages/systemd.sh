#!/bin/bash
# Tests the packages under a real systemd: systemd-nspawn boots a copy of this system in memory, without a network, and
# a service in it runs the steps. As root, with systemd-sysv, systemd-container and rpm (check.sh installs them):
#
#   test/packages/systemd.sh OLD NEW     folders with a deb and an rpm each
#
# The steps install a package, start the service, use it with TLS, stop it within and past its grace, hold its port,
# upgrade it under a client and go back, remove and purge it. Each prints a line.
set -Eeuo pipefail

if [[ ${1:-} != inside ]]; then
	old=$(realpath "$1") new=$(realpath "$2")
	work=$(mktemp -d)
	trap 'umount "$work/root" 2>/dev/null || true; rm -rf --one-file-system "$work"' EXIT
	cp "$0" "$work/steps"
	touch "$work/log"
	cat >"$work/steps.service" <<-'END'
		[Unit]
		SuccessAction=exit-force
		FailureAction=exit-force
		FailureActionExitStatus=1
		[Service]
		Type=oneshot
		ExecStart=/bin/bash /steps inside
		StandardOutput=file:/log
		StandardError=inherit
		TimeoutStartSec=10min
	END
	# Only the root's own file system, without what is mounted below it.
	mkdir "$work/root"
	mount --bind "${ROOT:-/}" "$work/root"
	status=0
	SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 systemd-nspawn --quiet --directory="$work/root" --volatile=overlay \
		--register=no --keep-unit --private-network --boot --console=pipe \
		--bind-ro="$old:/old" --bind-ro="$new:/new" --bind-ro="$work/steps:/steps" --bind="$work/log:/log" \
		--bind-ro="$work/steps.service:/etc/systemd/system/steps.service" \
		systemd.wants=steps.service </dev/null >"$work/console" 2>&1 || status=$?
	cat "$work/log"
	if ((status)); then
		tail -n 20 "$work/console" >&2
		echo "systemd: failed" >&2
	fi
	exit "$status"
fi

unit=rdma_server.service
say() { echo "systemd: $*"; }
# shellcheck disable=SC2317 # called by the trap
failed() {
	say "FAILED in line $1: $2"
	systemctl status --no-pager --lines 20 "$unit" || true
	exit 1
}
trap 'failed "$LINENO" "$BASH_COMMAND"' ERR

now() { systemctl show --value -p "$1" "$unit"; }
is() { # is PROPERTY VALUE
	[[ $(now "$1") == "$2" ]] || { echo "$1 is $(now "$1"), want $2"; return 1; }
}
until_true() { # until_true COMMAND... waits for at most a minute
	local i
	for ((i = 0; i < 600; i++)); do
		if "$@" >/dev/null 2>&1; then return; fi
		sleep 0.1
	done
	echo "not within a minute: $*"
	return 1
}
metrics() {
	local connection
	exec {connection}<>/dev/tcp/127.0.0.1/9435
	printf 'GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n' >&"$connection"
	cat <&"$connection"
	exec {connection}>&-
}
serves() { metrics | grep -qx "rawverbs_clients $1"; }
client() { rawverbs-client --quiet "$@" 127.0.0.1 soft0; }
# begin TIMES FLAGS... starts a client whose job takes a while, and waits until the server serves it.
begin() {
	(trap - ERR; client --job net-echo --count "$@" 2>/dev/null) &
	running=$!
	until_true serves 1
}
refused() { # refused TEXT COMMAND...
	local text=$1 said
	shift
	if said=$("$@" 2>&1); then echo "not refused: $*"; return 1; fi
	[[ $said == *"$text"* ]] || { echo "$said"; return 1; }
}
tried() { (($(now NRestarts) >= $1)); }
options() { echo "RDMA_SERVER=$*" >/etc/default/rdma_server; }

reloads() {
	# With LoadCredential the service has copies, so a group reads the folder here.
	groupadd rdma_tls
	chgrp -R rdma_tls /etc/rdma_server
	chmod 750 /etc/rdma_server
	chmod 640 /etc/rdma_server/*
	sed -i '/LoadCredential/d; s,--tls %d,--tls /etc/rdma_server,; $a SupplementaryGroups=rdma_tls' /etc/systemd/system/$unit.d/override.conf
	options --grace 10m soft0
	systemctl daemon-reload
	systemctl restart "$unit"
	before=$(now MainPID)
	begin 20000 --tls lab/client
	cat other/server/tls.crt >/etc/rdma_server/tls.crt
	cat other/server/tls.key >/etc/rdma_server/tls.key
	cat other/server/ca.crt >/etc/rdma_server/ca.crt
	systemctl reload "$unit"
	until_true client --tls other/client
	refused "try: directories of one CA" client --tls lab/client
	wait "$running"
	is MainPID "$before"
	rm -r /etc/systemd/system/$unit.d /etc/rdma_server
	systemctl daemon-reload
	systemctl restart "$unit"
	before=$(now MainPID)
	systemctl reload "$unit"
	client
	is MainPID "$before"
	say "reloaded under a client: its job is done, and new clients get the new certificate; without certificates nothing happens"
}

dpkg -i /old/*.deb >/dev/null
is UnitFileState disabled
is ActiveState inactive
say "installed $(dpkg-query -W -f '${Version}' rawverbs): neither enabled nor started"

systemctl enable --quiet --now "$unit"
is ActiveState active
client
until_true sh -c "journalctl -u $unit -o cat | grep -q 'msg=client .*job=send outcome=succeeded'"
version=v$(dpkg-query -W -f '${Version}' rawverbs) version=${version%-*}
[[ $(rawverbs-server --version) == *" $version" ]]
[[ $(metrics) == *"go_build_info{"*"version=\"$version\""* ]]
say "started: active when it listens; a client is served and has its line in the journal; go_build_info says $version"

# The recipe of operations.md, with a file of options that asks for no certificate.
cd /root
rdma_lab tls lab --host 127.0.0.1 >/dev/null
rdma_lab tls other --host 127.0.0.1 >/dev/null
install -d -m 700 /etc/rdma_server /etc/systemd/system/$unit.d
install -m 600 lab/server/* /etc/rdma_server
awk '/^```$/ {inside = 0} inside {print} /^\[Service\]$/ && last == "```" {inside = 1; print} {last = $0}' \
	/usr/share/doc/rawverbs/docs/operations.md >/etc/systemd/system/$unit.d/override.conf
grep -q LoadCredential /etc/systemd/system/$unit.d/override.conf
options soft0
systemctl daemon-reload
systemctl restart "$unit"
refused "takes only TLS" client
refused "try: directories of one CA" client --tls other/client
client --tls lab/client
systemctl reload "$unit"
until_true sh -c "journalctl -u $unit -o cat | grep -q 'the certificate has not changed; its files are copies of LoadCredential'"
sed -i "s/ %d\$/ \${CREDENTIALS_DIRECTORY}/" /etc/systemd/system/$unit.d/override.conf
systemctl daemon-reload
systemctl restart "$unit"
client --tls lab/client
sed -i "s/ \${CREDENTIALS_DIRECTORY}\$/ %d/" /etc/systemd/system/$unit.d/override.conf
say "the recipe for certificates, also as before systemd 251: a client without one is refused, and one of another CA"

failures() { journalctl -u "$unit" -p warning -o cat; }
until_true sh -c "journalctl -u $unit -p warning -o cat | grep -q 'msg=client .*outcome=failed .*the client refused this'"
[[ $(failures) == *"outcome=failed "*"does not use TLS"* && $(failures) != *succeeded* && $(journalctl -u "$unit" -o cat) == *succeeded* ]]
failures | sed 's/^/    /'
say "journalctl -p warning has the clients refused, and none of those served"

reloads

options --grace 10m soft0
systemctl restart "$unit"
begin 20000
systemctl stop "$unit"
wait "$running"
is Result success
say "stopped within the grace: the client's job is done"

options --grace 1s soft0
systemctl start "$unit"
begin 1000000000
systemctl stop "$unit"
if wait "$running"; then failed "$LINENO" "the client's job was not cut short"; fi
is Result success
is ActiveState inactive
say "stopped past the grace: the client's job is cut short, and the unit has not failed"

options soft0
rawverbs-server --quiet soft0 &
holder=$!
until_true client
systemctl start --no-block "$unit"
until_true tried 5
kill "$holder"
wait "$holder"
until_true is ActiveState active
client
say "port held during $(now NRestarts) starts: active when it is free"

options --max-clienst 4 soft0
if systemctl restart "$unit" 2>/dev/null; then failed "$LINENO" "a wrong flag is taken"; fi
is ActiveState failed
is NRestarts 0
until_true sh -c "journalctl -u $unit -p err -o cat | grep -qx 'rdma_server: unknown flag: --max-clienst; did you mean --max-clients?'"
say "a wrong command line: failed at once, and journalctl -p err has the reason"

options --grace 10m soft0
systemctl restart "$unit"
before=$(now MainPID)
begin 20000
dpkg -i /new/*.deb >/dev/null
wait "$running"
is ActiveState active
is UnitFileState enabled
[[ $(now MainPID) != "$before" && $(readlink "/proc/$(now MainPID)/exe") == /usr/lib/rawverbs/bin/rdma_server ]]
client
say "upgraded to $(dpkg-query -W -f '${Version}' rawverbs) under a client: its job is done, and the new program serves"

before=$(now MainPID)
begin 20000
dpkg -i /old/*.deb >/dev/null 2>&1
wait "$running"
is ActiveState active
is UnitFileState enabled
[[ $(now MainPID) != "$before" && $(rawverbs-server --version) == *" $version" && $(</etc/default/rdma_server) == *"--grace 10m"* ]]
client
say "back to $(dpkg-query -W -f '${Version}' rawverbs) under a client: its job is done, the old program serves, and the options are kept"

systemctl stop "$unit"
dpkg -i /new/*.deb >/dev/null
is ActiveState inactive
systemctl start "$unit"
dpkg -r rawverbs >/dev/null
is ActiveState inactive
[[ ! -e /proc/$(now MainPID)/exe && -e /etc/default/rdma_server && -d /var/lib/private/rdma_server ]]
say "a stopped service stays stopped; removed: stopped, options and data are kept"

dpkg -P rawverbs >/dev/null
is LoadState not-found
left=$(find / -xdev \( -path /proc -o -path /root -o -path /old -o -path /new -o -path /var/cache/man -o -path /tmp \) -prune -o \( -name '*rdma_server*' -o -name '*rawverbs*' \) -print)
[[ -z $left ]] || { echo "$left"; false; }
say "purged: nothing is left"

# As on Fedora, where a preset leaves services disabled and rpm's triggers reload systemd.
mkdir -p /etc/systemd/system-preset
echo 'disable *' >/etc/systemd/system-preset/00-fedora.preset
rpm --nodeps -i /old/*.rpm 2>/dev/null
is UnitFileState disabled
systemctl daemon-reload
systemctl enable --quiet --now "$unit"
client
before=$(now MainPID)
rpm --nodeps -U /new/*.rpm 2>/dev/null
is ActiveState active
[[ $(now MainPID) != "$before" && $(readlink "/proc/$(now MainPID)/exe") == /usr/lib/rawverbs/bin/rdma_server ]]
client
rpm --nodeps -U --oldpackage /old/*.rpm 2>/dev/null
is ActiveState active
[[ $(rawverbs-server --version) == *" $version" && $(readlink "/proc/$(now MainPID)/exe") == /usr/lib/rawverbs/bin/rdma_server ]]
client
rpm -e rawverbs
is ActiveState inactive
[[ ! -e /etc/systemd/system/multi-user.target.wants/$unit ]]
say "the rpm: started, upgraded to the new program, back to the old one, removed"
