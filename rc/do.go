// Do, which does one request per call, and the methods built on it.

package rc

import (
	"context"
	"encoding/binary"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/sync/ctxwatch"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/rc/internal/dispatch"
	"github.com/rawverbs/rawverbs/verbs"
)

// resultSize is the size of an atomic's old value, in bytes.
const resultSize = 8

// Do posts a request to the first queue pair and returns its completion; a failed one comes with a
// *[verbs.WCError]. While the queue is full, Do waits for room. If ctx or the connection ends after
// the post, the error is an *[InFlightError]. After other errors nothing was posted: see
// [Conn.WaitSend] and [verbs.QP.PostSend]. Do allocates nothing. A program that also calls PostSend
// must take its completions from WaitSend, and must not poll the CQ itself.
func (c *Conn) Do(ctx context.Context, wr *verbs.SendWR) (verbs.WC, error) {
	return c.DoOn(ctx, 0, wr)
}

// DoOn is Do on the queue pair at an index.
func (c *Conn) DoOn(ctx context.Context, index int, wr *verbs.SendWR) (verbs.WC, error) {
	if isAtomic(wr.Opcode) {
		if err := checkAligned(wr.RemoteAddr); err != nil {
			return verbs.WC{}, err
		}
	}
	return c.request(ctx, c.pairs[index], wr, nil, nil)
}

// Send sends local to one receive of the peer; see Do. The zero MRSlice is an empty message.
func (c *Conn) Send(ctx context.Context, local verbs.MRSlice) error {
	return c.move(ctx, &verbs.SendWR{Opcode: verbs.OpSend}, local, 0)
}

// Recv posts a receive into local and returns its completion; see Do. Messages fill receives in
// the order of the posts. To have receives before the peer sends, post them in Config.Prepare
// and use WaitRecv. With an SRQ, Recv returns an error.
func (c *Conn) Recv(ctx context.Context, local verbs.MRSlice) (verbs.WC, error) {
	sge, err := elementOf(local, verbs.AccessLocalWrite)
	if err != nil {
		return verbs.WC{}, errors.WithMessage(err, "receive")
	}
	if c.pairs[0].recvs == nil {
		return verbs.WC{}, errors.New("Recv cannot choose which message fills a receive of an SRQ; try: QP().SRQ().PostRecv and WaitRecv")
	}
	return c.request(ctx, c.pairs[0], nil, &sge, nil)
}

// Write writes local to the peer's region at the offset off; see Do. The zero MRSlice is an error.
func (c *Conn) Write(ctx context.Context, local verbs.MRSlice, remote oob.Region, off int) error {
	return c.reach(ctx, &verbs.SendWR{Opcode: verbs.OpRDMAWrite}, local, remote, off)
}

// WriteImm is Write that also completes one of the peer's receives, with imm. The zero MRSlice writes nothing.
func (c *Conn) WriteImm(ctx context.Context, local verbs.MRSlice, remote oob.Region, off int, imm uint32) error {
	return c.reach(ctx, &verbs.SendWR{Opcode: verbs.OpRDMAWriteWithImm, Imm: imm}, local, remote, off)
}

// Read reads from the peer's region at the offset off into local; see Do. The zero MRSlice is an error.
func (c *Conn) Read(ctx context.Context, local verbs.MRSlice, remote oob.Region, off int) error {
	return c.reach(ctx, &verbs.SendWR{Opcode: verbs.OpRDMARead}, local, remote, off)
}

// FetchAdd adds to the 8 bytes at the offset off of the peer's region and returns their old value;
// see Do. Their address must be a multiple of 8.
func (c *Conn) FetchAdd(ctx context.Context, remote oob.Region, off int, add uint64) (before uint64, err error) {
	return c.atomic(ctx, &verbs.SendWR{Opcode: verbs.OpAtomicFetchAndAdd, CompareAdd: add}, remote, off)
}

// CompareSwap replaces 8 bytes by swap if they equal compare; see FetchAdd.
func (c *Conn) CompareSwap(ctx context.Context, remote oob.Region, off int, compare, swap uint64) (before uint64, err error) {
	return c.atomic(ctx, &verbs.SendWR{Opcode: verbs.OpAtomicCmpAndSwp, CompareAdd: compare, Swap: swap}, remote, off)
}

// reach does a one-sided request.
func (c *Conn) reach(ctx context.Context, wr *verbs.SendWR, local verbs.MRSlice, remote oob.Region, off int) (err error) {
	if wr.RemoteAddr, err = within(remote, off, local.Len); err == nil && wr.Opcode != verbs.OpRDMAWriteWithImm && local == (verbs.MRSlice{}) {
		_, err = local.SGE() // without data or imm nothing would happen at the peer: the program forgot the region
	}
	if err != nil {
		return errors.WithMessage(err, wr.Opcode.String())
	}
	wr.RKey = remote.RKey
	var needs verbs.Access
	if wr.Opcode == verbs.OpRDMARead {
		needs = verbs.AccessLocalWrite
	}
	return c.move(ctx, wr, local, needs)
}

// move does a request with local as its data. The region of local must have the rights needed.
func (c *Conn) move(ctx context.Context, wr *verbs.SendWR, local verbs.MRSlice, needs verbs.Access) error {
	sge, err := elementOf(local, needs)
	if err != nil {
		return errors.WithMessage(err, wr.Opcode.String())
	}
	if pair := c.pairs[0]; pair.ah != nil {
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = pair.ah, pair.peer.QPN, pair.peer.QKey
	}
	_, err = c.request(ctx, c.pairs[0], wr, &sge, nil)
	return err
}

// atomic does an atomic request. Its result goes to memory of the Conn.
func (c *Conn) atomic(ctx context.Context, wr *verbs.SendWR, remote oob.Region, off int) (before uint64, err error) {
	if wr.RemoteAddr, err = within(remote, off, resultSize); err == nil {
		err = checkAligned(wr.RemoteAddr)
	}
	if err != nil {
		return 0, errors.WithMessage(err, wr.Opcode.String())
	}
	wr.RKey = remote.RKey
	_, err = c.request(ctx, c.pairs[0], wr, nil, &before)
	return before, err
}

// request posts one request, a receive if wr is nil, and waits for its completion. If one is not
// nil, it replaces wr's SGL, so that no list is allocated. before gets the result of an atomic.
func (c *Conn) request(ctx context.Context, pair *queuePair, wr *verbs.SendWR, one *verbs.SGE, before *uint64) (verbs.WC, error) {
	if !c.begin() {
		return verbs.WC{}, errClosed
	}
	defer c.calls.Done()
	if ctx.Err() != nil {
		return verbs.WC{}, ctxwatch.Err(ctx)
	}
	q, owner := pair.sends, c.ctx
	if wr == nil {
		q, owner = pair.recvs, c.recvOwner()
	}
	if owner.Err() != nil {
		return verbs.WC{}, context.Cause(owner)
	}
	req, err := q.Acquire(ctx, owner)
	if err != nil {
		return verbs.WC{}, errors.WithMessage(err, "wait for room in the queue")
	}
	var result *verbs.MR
	if before != nil {
		if result, err = c.resultMR(); err != nil {
			req.GiveBack()
			return verbs.WC{}, err
		}
		sge := result.SGE(req.Place*resultSize, resultSize)
		one = &sge
	}
	fill(req, wr, one)
	if err := req.Start(ctx, owner); err != nil {
		req.GiveBack()
		return verbs.WC{}, tooEarly(err, pair.State())
	}
	if left, err := req.Finish(ctx, owner); err != nil {
		return verbs.WC{}, inFlight(wr, left, err)
	}
	wc := req.WC
	if before != nil {
		*before = binary.NativeEndian.Uint64(result.Bytes()[req.Place*resultSize:])
	}
	req.GiveBack()
	return wc, wc.Err()
}

// tooEarly replaces the remedy of a send that was refused before RTS, because a program does not
// move the queue pairs of a Conn itself.
func tooEarly(err error, state verbs.QPState) error {
	var refused *verbs.PostError
	if state < qpstate.RTS && errors.As(err, &refused) && refused.Op == "ibv_post_send" {
		refused.Hint = "sending after Dial or Connect has returned, because Config.Prepare can only post receives"
	}
	return err
}

// fill sets the work request that req posts.
func fill(req *dispatch.Request, wr *verbs.SendWR, one *verbs.SGE) {
	var sgl []verbs.SGE
	if one != nil && one.Length > 0 { // some devices take 0 bytes for 2 GiB
		req.SGE[0] = *one
		sgl = req.SGE[:]
	}
	if wr == nil {
		req.UserID = 0
		req.Recv[0] = verbs.RecvWR{ID: req.ID(), SGL: sgl}
		return
	}
	req.UserID = wr.ID
	post := &req.Send[0]
	*post = *wr
	post.ID = req.ID()
	post.Flags |= verbs.SendSignaled
	if one != nil {
		post.SGL = sgl
	}
}

// resultMR returns the memory for results of atomics: 8 bytes per place of the first send queue.
func (c *Conn) resultMR() (*verbs.MR, error) {
	if mr := c.results.Load(); mr != nil {
		return mr, nil
	}
	c.makingResults.Lock()
	defer c.makingResults.Unlock()
	if mr := c.results.Load(); mr != nil {
		return mr, nil
	}
	mr, err := c.AllocMR("results of atomics", c.pairs[0].sends.Most*resultSize, verbs.AccessLocalWrite)
	if err == nil {
		c.results.Store(mr)
	}
	return mr, err
}

// within returns the address of n bytes at an offset of the peer's region.
func within(r oob.Region, off, n int) (uint64, error) {
	if off < 0 || n < 0 || uint64(off) > r.Length || uint64(n) > r.Length-uint64(off) {
		return 0, errors.Errorf("%d bytes at offset %d are not within the peer's region %q of %d bytes; try: fewer bytes, or a larger region", n, off, r.Name, r.Length)
	}
	return r.Addr + uint64(off), nil
}

// elementOf returns local as an element. It refuses bytes outside the region, and a region without
// the rights needed.
func elementOf(local verbs.MRSlice, needs verbs.Access) (verbs.SGE, error) {
	if local == (verbs.MRSlice{}) {
		return verbs.SGE{}, nil
	}
	sge, err := local.SGE()
	if err == nil && local.MR.Access()&needs != needs {
		err = errors.Errorf("the local region (%v) lacks %s, which the device needs to write to it; try: register it with verbs.AccessLocalWrite", local.MR, needs.Name())
	}
	return sge, err
}

func isAtomic(op verbs.Opcode) bool {
	return op == verbs.OpAtomicCmpAndSwp || op == verbs.OpAtomicFetchAndAdd
}

func checkAligned(addr uint64) error {
	if addr%resultSize != 0 {
		return errors.Errorf("the peer's address %#x is not a multiple of %d, and atomics need that; try: an aligned offset", addr, resultSize)
	}
	return nil
}
