#!/bin/bash
# Makes eth0 of a machine lose packets that it receives:
#
#   test/vm/lossy.sh 1%
#
# netem on eth0 itself would lose packets on their way out. There a burst of the software device is one
# packet still (GSO), and would be lost as a whole. So what eth0 receives is led through an interface of
# its own.
set -euo pipefail

modprobe ifb numifbs=1
ip link set ifb0 up
tc qdisc add dev eth0 ingress
tc filter add dev eth0 ingress matchall action mirred egress redirect dev ifb0
tc qdisc add dev ifb0 root netem loss "$1"
