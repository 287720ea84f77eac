// Shared receive queues: one stock of receives for many queue pairs.

package verbs

import "fmt"

// SRQInit says what shared receive queue to make (struct ibv_srq_init_attr). The zero
// value does not work: an SRQ of 0 receives is EINVAL.
type SRQInit struct {
	MaxWR  uint32 // receives it holds, at least 1; what is granted may be more: see SRQ.Query
	MaxSGE uint32 // elements of one receive; 0 has soft devices grant 1
}

// SRQAttr is a shared receive queue as it is, or as it is to be (struct ibv_srq_attr).
type SRQAttr struct {
	MaxWR  uint32 // receives it holds
	MaxSGE uint32 // elements of one receive; Modify ignores it
	Limit  uint32 // armed: EventSRQLimitReached when fewer receives are left; 0: not armed
}

// SRQAttrMask names attributes for [SRQ.Modify] (enum ibv_srq_attr_mask).
type SRQAttrMask uint32

// The attributes that can be modified.
const (
	SRQMaxWR SRQAttrMask = 1 << 0 // SRQAttr.MaxWR counts: resize the queue
	SRQLimit SRQAttrMask = 1 << 1 // SRQAttr.Limit counts: arm the limit, or with 0 disarm it
)

// String lists the bits by their C names, "0" for none.
func (m SRQAttrMask) String() string { return cFlags("IBV_SRQ_", uint32(m), "MAX_WR", "LIMIT") }

// SRQ is a shared receive queue (struct ibv_srq): queue pairs made with it
// (QPInit.SRQ) take their receives from it, in the order that they were posted.
// Each receive completes on the RecvCQ of the queue pair that took it. A queue
// pair that goes to ERR leaves the SRQ's receives where they are and tells by
// [EventQPLastWQEReached] that it takes no more.
//
// [PD.CreateSRQ] makes it; it is valid until Close. Its methods may be called by several
// goroutines at once; posts are then served in turn.
type SRQ struct {
	handle
	p   ProviderSRQ
	dev *Device
}

// CreateSRQ makes a shared receive queue. Its limit is not armed. The error is
// EINVAL for sizes beyond the device's, ENOMEM if it has no more room,
// errors.ErrUnsupported if it has no SRQs.
//
// Implements: struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *srq_init_attr)
func (pd *PD) CreateSRQ(init SRQInit) (*SRQ, error) {
	s := &SRQ{dev: pd.dev}
	p, err := makeObject(&s.handle, "SRQ", "ibv_create_srq", fmt.Sprintf("%+v", init),
		func() (ProviderSRQ, error) { return pd.p.CreateSRQ(init) }, &pd.handle)
	if err != nil {
		return nil, err
	}
	s.p = p
	return s, nil
}

// Is says whether an asynchronous event is about this SRQ; it answers after Close too.
func (s *SRQ) Is(e AsyncEvent) bool { return e.SRQ == s.p }

// PostRecv queues receive work requests in order. If one is refused the error is a
// *[PostError] with its index: those before it are queued, the rest are not; ENOMEM
// says that the queue is full, EINVAL that the request has too many elements, and
// net.ErrClosed that the SRQ is closed. The slice may be reused at once; the memory that the
// SGEs name belongs to the device until the completion. It allocates nothing itself; see
// [QP.PostSend].
//
// Implements: int ibv_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *recv_wr, struct ibv_recv_wr **bad_recv_wr)
func (s *SRQ) PostRecv(wrs []RecvWR) error {
	n, err := s.p.PostRecv(wrs)
	if err != nil {
		return s.recvRefused(wrs, n, err)
	}
	return nil
}

// Modify applies the attributes that mask names. [SRQLimit] arms the limit: the
// device reports [EventSRQLimitReached] once, when fewer than Limit receives are
// left, and disarms it. [SRQMaxWR] resizes the queue; the receives in it stay. The
// error is EINVAL for a limit above the size or a size below the receives that are
// queued, errors.ErrUnsupported if the device cannot resize, net.ErrClosed after Close.
//
// Implements: int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr, int srq_attr_mask)
func (s *SRQ) Modify(attr SRQAttr, mask SRQAttrMask) error {
	return s.call("ibv_modify_srq", fmt.Sprintf("%v: %+v", mask, attr), func() error { return s.p.Modify(attr, mask) })
}

// Query asks the device for the sizes granted, and for the limit: 0 once it was
// reached. net.ErrClosed after Close.
//
// Implements: int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr)
func (s *SRQ) Query() (SRQAttr, error) {
	var attr SRQAttr
	err := s.call("ibv_query_srq", "", func() (err error) {
		attr, err = s.p.Query()
		return err
	})
	return attr, err
}

// Number is the SRQ's number, which an XRC peer sends to. errors.ErrUnsupported
// from a device that has no such numbers, net.ErrClosed after Close.
//
// Implements: int ibv_get_srq_num(struct ibv_srq *srq, uint32_t *srq_num)
func (s *SRQ) Number() (uint32, error) {
	var n uint32
	err := s.call("ibv_get_srq_num", "", func() (err error) {
		n, err = s.p.Number()
		return err
	})
	return n, err
}

// Close destroys the SRQ and what is queued in it, without completions; EBUSY while
// queue pairs use it. Closing again does nothing.
//
// Implements: int ibv_destroy_srq(struct ibv_srq *srq)
func (s *SRQ) Close() error { return s.close("ibv_destroy_srq", s.p.Close) }
