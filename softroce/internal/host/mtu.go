package host

import "github.com/rawverbs/rawverbs/softroce/internal/packet"

// headroom is the number of bytes that rdma_rxe reserves for headers.
const headroom = 80

// minMTU is the smallest path MTU.
const minMTU = 256

// LeastMTU is the smallest MTU of an interface that RoCE can use.
const LeastMTU = minMTU + headroom

// PathMTU returns the largest path MTU over an interface with an MTU of n bytes, by the
// rule of rdma_rxe: n-80, rounded down to 256, 512, 1024, 2048 or 4096. It returns 0 if n
// is less than LeastMTU.
func PathMTU(n int) int {
	for mtu := packet.MaxPayload; mtu >= minMTU; mtu /= 2 {
		if n-headroom >= mtu {
			return mtu
		}
	}
	return 0
}
