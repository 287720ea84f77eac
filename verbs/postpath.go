// PostPath: which of the two APIs of libibverbs posts sends.

package verbs

import "fmt"

// PostPath selects the API of libibverbs that [QP.PostSend] uses. It changes the speed of PostSend,
// not its behaviour.
type PostPath uint8

// The values of PostPath.
const (
	// PostAuto leaves the choice to the provider. The libibverbs provider uses
	// PostClassic; see PostWRAPI.
	PostAuto PostPath = iota
	// PostClassic is ibv_post_send, which every device has.
	PostClassic
	// PostWRAPI is libibverbs' work request API: the ibv_wr_* calls between ibv_wr_start and
	// ibv_wr_complete. CreateQP fails on a device without them. Up to 256 requests are accepted or
	// refused together: see [PostError]. PostWRAPI is not the default for two reasons. It is not
	// faster on rdma_rxe: in two runs a post of 1 or of 16 requests took 0.9 to 1.2 times as long,
	// and a post of 64 took 0.94 times (make bench-c). And the rxe provider of libibverbs 44 sends
	// wrong data for a request with several elements.
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

// PostPath returns the value in use. It returns [PostAuto] for a device that does not use libibverbs,
// such as a soft device. It is valid after Close.
func (qp *QP) PostPath() PostPath {
	if p, err := optional[ProviderPostPath](qp.p); err == nil {
		return p.PostPath()
	}
	return PostAuto
}
