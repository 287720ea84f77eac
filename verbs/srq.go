// Shared receive queues: one queue of receives for many queue pairs.

package verbs

import "fmt"

// SRQInit describes a new shared receive queue (struct ibv_srq_init_attr). MaxWR must be set; 0 is
// EINVAL.
type SRQInit struct {
	MaxWR  uint32 // requested receives in the queue, at least 1; SRQ.Query returns the granted number
	MaxSGE uint32 // requested elements per receive; with 0 soft devices grant 1
}

// SRQAttr holds the attributes of a shared receive queue, for Query and Modify (struct ibv_srq_attr).
type SRQAttr struct {
	MaxWR  uint32 // receives in the queue
	MaxSGE uint32 // elements per receive; Modify ignores it
	Limit  uint32 // EventSRQLimitReached comes when fewer receives are left; 0: not armed
}

// SRQAttrMask names attributes for [SRQ.Modify] (enum ibv_srq_attr_mask).
type SRQAttrMask uint32

// The attributes that can be modified.
const (
	SRQMaxWR SRQAttrMask = 1 << 0 // SRQAttr.MaxWR counts: resize the queue
	SRQLimit SRQAttrMask = 1 << 1 // SRQAttr.Limit counts: arm the limit, or with 0 disarm it
)

// String lists the bits by their C names. No bits give "0".
func (m SRQAttrMask) String() string { return cFlags("IBV_SRQ_", uint32(m), "MAX_WR", "LIMIT") }

// SRQ is a shared receive queue (struct ibv_srq). Queue pairs made with it (QPInit.SRQ) take their
// receives from it, in the order of the posts. A receive completes on the RecvCQ of the queue pair
// that took it. When a queue pair moves to ERR, the receives in the SRQ stay there, and the device
// reports [EventQPLastWQEReached] when the queue pair takes no more of them.
//
// [PD.CreateSRQ] makes an SRQ; it is valid until Close.
//
// All methods of an SRQ may be called at the same time by several goroutines, Close included. Posts
// run one after the other.
type SRQ struct {
	handle
	p   ProviderSRQ
	dev *Device
}

// CreateSRQ makes a shared receive queue. Its limit is not armed. EINVAL for sizes above the device's
// limits, ENOMEM if the device has no memory for it, errors.ErrUnsupported if the device has no SRQs.
// The domain cannot be closed before the SRQ is.
//
// Implements: struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *srq_init_attr)
func (pd *PD) CreateSRQ(init SRQInit) (*SRQ, error) {
	s := &SRQ{dev: pd.dev}
	return makeObject(s, &s.handle, &s.p, "SRQ", "ibv_create_srq", fmt.Sprintf("%+v", init),
		func() (ProviderSRQ, error) { return pd.p.CreateSRQ(init) }, &pd.handle)
}

// Is reports whether an asynchronous event is about this SRQ. It is valid after Close.
func (s *SRQ) Is(e AsyncEvent) bool { return e.object == s.p }

// PostRecv queues receive work requests in order. If a request is refused, the error is a
// *[PostError] with the request's index: the requests before it are queued, the others are not.
// ENOMEM means that the queue is full. EINVAL for a request with too many elements; net.ErrClosed
// after Close. The slice may be reused at once. The memory named by the SGEs belongs to the device
// until the completion. PostRecv does not allocate; see [QP.PostSend].
//
// Implements: int ibv_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *recv_wr, struct ibv_recv_wr **bad_recv_wr)
func (s *SRQ) PostRecv(wrs []RecvWR) error {
	n, err := s.p.PostRecv(wrs)
	if err != nil {
		return s.recvRefused(wrs, n, err)
	}
	return nil
}

// Modify applies the attributes that mask names. [SRQLimit] arms the limit: when fewer than Limit
// receives are left, the device reports [EventSRQLimitReached] once and disarms the limit.
// [SRQMaxWR] resizes the queue; queued receives stay. EINVAL for a limit above the queue's size, or
// for a size below the number of queued receives; errors.ErrUnsupported if the device cannot
// resize; net.ErrClosed after Close.
//
// Implements: int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr, int srq_attr_mask)
func (s *SRQ) Modify(attr SRQAttr, mask SRQAttrMask) error {
	return s.call("ibv_modify_srq", fmt.Sprintf("%v: %+v", mask, attr), func() error { return s.p.Modify(attr, mask) })
}

// Query reads the granted sizes and the armed limit from the device. The limit is 0 after it was
// reached. net.ErrClosed after Close.
//
// Implements: int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr)
func (s *SRQ) Query() (SRQAttr, error) {
	return query(&s.handle, "ibv_query_srq", "", s.p.Query)
}

// Number returns the SRQ's number, for XRC peers. errors.ErrUnsupported if the device has no SRQ
// numbers, net.ErrClosed after Close.
//
// Implements: int ibv_get_srq_num(struct ibv_srq *srq, uint32_t *srq_num)
func (s *SRQ) Number() (uint32, error) {
	return query(&s.handle, "ibv_get_srq_num", "", s.p.Number)
}

// Close destroys the SRQ. Queued receives vanish without completions. EBUSY while queue pairs use the
// SRQ. Closing again does nothing.
//
// Implements: int ibv_destroy_srq(struct ibv_srq *srq)
func (s *SRQ) Close() error {
	if s == nil || s.p == nil {
		return nil
	}
	return s.close("ibv_destroy_srq", s.p.Close)
}
