// The two ways that libibverbs has to post sends.

package verbs

import "fmt"

// PostPath is how [QP.PostSend] reaches the device. The calls are the same, and so
// is what they do; only speed may differ.
type PostPath uint8

// The ways.
const (
	// PostAuto leaves the choice to the provider. libibverbs' takes PostClassic: see
	// PostBuilder.
	PostAuto PostPath = iota
	// PostClassic is ibv_post_send, which every device has.
	PostClassic
	// PostBuilder is the ibv_wr_* calls between ibv_wr_start and ibv_wr_complete. A
	// device that lacks them refuses to make the queue pair. Up to 256 requests are taken or
	// refused together: see [PostError]. It is not the default
	// because it gains nothing on rdma_rxe, where in two runs a post of 1 or of 16
	// requests took 0.9 to 1.2 times as long, of 64 0.94 times (make bench-c); and
	// because the rxe part of libibverbs 44 sends wrong data of a request that has
	// several elements.
	PostBuilder
)

// String is "auto", "classic" or "builder".
func (p PostPath) String() string {
	switch p {
	case PostAuto:
		return "auto"
	case PostClassic:
		return "classic"
	case PostBuilder:
		return "builder"
	}
	return fmt.Sprintf("PostPath(%d)", uint8(p))
}

// PostPath is the way that was taken, [PostAuto] for a device that has a way of its
// own, as soft devices have.
func (qp *QP) PostPath() PostPath {
	if p, err := optional[PostPathProvider](qp.p); err == nil {
		return p.PostPath()
	}
	return PostAuto
}
