// PostPath: which of libibverbs' two APIs posts sends.

package verbs

import "fmt"

// PostPath is the way into libibverbs that [QP.PostSend] uses. Its value changes the
// speed of PostSend, not what PostSend does.
type PostPath uint8

// The values of PostPath.
const (
	// PostAuto leaves the choice to the provider. The libibverbs provider uses
	// PostClassic; see PostWRAPI.
	PostAuto PostPath = iota
	// PostClassic is ibv_post_send, which every device has.
	PostClassic
	// PostWRAPI is libibverbs' work request API: the ibv_wr_* calls between ibv_wr_start
	// and ibv_wr_complete. A device without them refuses to make the queue pair. Up to 256
	// requests are taken or refused together: see [PostError]. PostWRAPI is not the default
	// for two reasons. It gains nothing on rdma_rxe: in two runs a post of 1 or of 16
	// requests took 0.9 to 1.2 times as long, a post of 64 took 0.94 times (make bench-c).
	// And the rxe part of libibverbs 44 sends wrong data for a request with several elements.
	PostWRAPI
)

// String returns "auto", "classic" or "wr-api".
func (p PostPath) String() string {
	switch p {
	case PostAuto:
		return "auto"
	case PostClassic:
		return "classic"
	case PostWRAPI:
		return "wr-api"
	}
	return fmt.Sprintf("PostPath(%d)", uint8(p))
}

// PostPath returns the value in use: [PostAuto] for a device that does not use libibverbs,
// such as a soft device.
func (qp *QP) PostPath() PostPath {
	if p, err := optional[ProviderPostPath](qp.p); err == nil {
		return p.PostPath()
	}
	return PostAuto
}
