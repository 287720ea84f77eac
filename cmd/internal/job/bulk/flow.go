// The parts that both ends of the job "bulk" share: the window of slots, posting in batches,
// and two counts that keep the ends in step:
//
//   - completions: a queue pair has a limited number of requests outstanding. They
//     complete in order, so a signaled one also completes those before it.
//   - credits: how many chunks the peer has checked, or has made. A credit has the total, not
//     an increment, so one credit can stand for several chunks. A credit is sent for every
//     quarter of a window. So only few credits are on their way, and each finds a posted
//     receive.

package bulk

import (
	"context"
	"log/slog"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

const (
	// maxCredits is the limit of credits on their way. Together they count at most the chunks
	// of one window, and each counts at least a quarter of it, rounded down but not to 0. That
	// allows 7 credits, in a window of 7 slots. The last credit of a job may count fewer
	// chunks, so there is one more.
	maxCredits = 8

	// creditID is the ID of a credit's request. The ID of a chunk's request is the chunk's
	// number.
	creditID = 1 << 63

	// batchBytes and batchMost limit the data and the requests of one post, so that the peer
	// does not wait until many large chunks are made.
	batchBytes = 64 << 10
	batchMost  = 32
)

// endpoint is one end of the job.
type endpoint struct {
	plan
	kit.Tracer
	port  uint8 // of the device
	data  data
	meter meter

	conn   *rc.Conn
	pairs  []*verbs.QP
	region *verbs.MR
	sges   []verbs.SGE      // by slot
	sends  [][]verbs.SendWR // requests to be posted, by queue pair
	recvs  [][]verbs.RecvWR // receives to be posted, by queue pair
	wcs    [batchMost]verbs.WC

	completed []int64         // number of completed requests of chunks, by queue pair
	expected  int             // completions to come: signaled requests that are outstanding
	credits   int             // credits that were sent and have not completed
	given     int64           // the count in the last credit sent
	credit    [1]verbs.SendWR // the request of the last credit
	granted   int64           // the count in the peer's last credit
}

func newEndpoint(p plan, s *kit.Session) *endpoint {
	return &endpoint{plan: p, Tracer: kit.Tracer{Logger: s.Logger}, port: s.Port, data: newData(p.seed, p.Chunk)}
}

// prepareClient is Prepare of both kinds of clients. It checks the window against the
// server's limit before it allocates memory.
func (e *endpoint) prepareClient(c *rc.Conn, name string, access verbs.Access) error {
	most, err := kit.Params(c.PeerHello().Params).MaxSize()
	if err != nil {
		return err
	}
	if err := e.within(most); err != nil {
		return err
	}
	if err := e.allocate(c, name, access); err != nil {
		return err
	}
	return e.receiveCredits()
}

// Memory returns the bytes of the window, and of what there is for each slot and queue pair.
func (e *endpoint) Memory() int64 {
	const eachSlot, eachQP = 16 + 8 + 1 + 2*32, 2 * batchMost * 112 // an SGE, a length, a flag, a receive twice; batches
	return e.window() + int64(e.slots())*eachSlot + int64(e.qps)*eachQP
}

// allocate registers the window.
func (e *endpoint) allocate(c *rc.Conn, name string, access verbs.Access) (err error) {
	if err := e.Chunked.Check(c.Device(), e.port); err != nil {
		return err
	}
	if e.region, err = c.AllocMR(name, int(e.window()), access); err != nil {
		return err
	}
	e.conn, e.pairs = c, c.QPs()
	e.sges = make([]verbs.SGE, e.slots())
	for s := range e.sges {
		e.sges[s] = e.region.SGE(s*e.Chunk, e.Chunk)
	}
	e.sends, e.recvs = make([][]verbs.SendWR, e.qps), make([][]verbs.RecvWR, e.qps)
	e.completed = make([]int64, e.qps)
	return nil
}

// at returns a chunk's memory; gather returns the same memory as a list for a request.
func (e *endpoint) at(i int64) []byte {
	return e.region.Bytes()[e.slot(i)*e.Chunk:][:e.Length(i)]
}

func (e *endpoint) gather(i int64) []verbs.SGE {
	s := e.slot(i)
	e.sges[s].Length = uint32(e.Length(i))
	return e.sges[s : s+1]
}

// receiveCredits posts the receives for the peer's credits, which come over the first
// queue pair. The other queue pairs get one receive that nothing fills: if such a queue
// pair fails, the flush wakes the goroutine that waits for credits.
func (e *endpoint) receiveCredits() error {
	for q, qp := range e.pairs {
		n := 1
		if q == 0 {
			n = maxCredits
		}
		for range n {
			if err := qp.PostRecv([]verbs.RecvWR{{ID: creditID}}); err != nil {
				return err
			}
		}
	}
	event.RecvPosted.Log(e.Logger, "post RECVs for credits", slog.Int("count", maxCredits))
	return nil
}

// room reports whether the queue pair of a chunk may have one more request outstanding.
func (e *endpoint) room(i int64) bool {
	return e.turn(i) < e.completed[e.qp(i)]+int64(e.outstanding)
}

// post makes a chunk's request, and posts when a batch is full. flush posts the rest.
func (e *endpoint) post(i int64, wr verbs.SendWR) error {
	wr.ID, wr.SGL = uint64(i), e.gather(i)
	if e.signaled(i) {
		wr.Flags |= verbs.SendSignaled
		e.expected++
	}
	q := e.qp(i)
	if i == 0 {
		return e.PostSend(e.pairs[q], wr) // this request is logged, as an example
	}
	e.sends[q] = append(e.sends[q], wr)
	if n := len(e.sends[q]); n >= batchMost || n*e.Chunk >= batchBytes {
		return e.flushSends(q)
	}
	return nil
}

func (e *endpoint) flush() error {
	for q := range e.sends {
		if err := e.flushSends(q); err != nil {
			return err
		}
	}
	return nil
}

func (e *endpoint) flushSends(q int) error {
	if len(e.sends[q]) == 0 {
		return nil
	}
	err := e.pairs[q].PostSend(e.sends[q])
	e.sends[q] = e.sends[q][:0]
	return err
}

// await waits for the next completion of this end, if one is expected, or else for the
// peer's credit.
func (e *endpoint) await(ctx context.Context) error {
	if e.expected > 0 {
		return e.awaitSends(ctx)
	}
	return e.awaitCredits(ctx)
}

// awaitSends takes completions of the send queues.
func (e *endpoint) awaitSends(ctx context.Context) error {
	e.meter.waits(forAcknowledgement)
	n, err := e.conn.WaitSends(ctx, e.wcs[:])
	if err == nil {
		err = kit.FirstFailure(e.wcs[:n])
	}
	if err != nil {
		return errors.WithMessage(e.Cause(e.conn, err), "waiting for the requests to complete")
	}
	kit.Progress(ctx)
	var bytes int64
	for k := range e.wcs[:n] {
		wc := &e.wcs[k]
		if wc.ID == creditID {
			e.credits--
			continue
		}
		e.expected--
		i := int64(wc.ID)
		bytes += e.complete(i)
		if e.turn(i) < int64(e.signalEvery) && e.qp(i) == 0 {
			e.Tracer.LogCompletion(wc) // the first one is logged
		}
	}
	e.meter.add(bytes, n)
	return nil
}

// complete counts a chunk's request, and all requests before it on its queue pair, as
// completed. It returns the number of their bytes.
func (e *endpoint) complete(i int64) int64 {
	q, turns := e.qp(i), e.turn(i)+1
	bytes := (turns-e.completed[q]-1)*int64(e.Chunk) + int64(e.Length(i)) // only the last can be shorter
	e.completed[q] = turns
	return bytes
}

// awaitCredits waits for the peer's credits; pollCredits takes the credits that have come.
func (e *endpoint) awaitCredits(ctx context.Context) error {
	e.meter.waits(forCredit)
	n, err := e.conn.WaitRecvs(ctx, e.wcs[:])
	return e.takeCredits(ctx, n, err)
}

func (e *endpoint) pollCredits(ctx context.Context) error {
	n, err := e.conn.QP().RecvCQ().Poll(e.wcs[:])
	if n == 0 && err == nil {
		return nil
	}
	return e.takeCredits(ctx, n, err)
}

// takeCredits takes the n completions that a wait or a poll returned with err.
func (e *endpoint) takeCredits(ctx context.Context, n int, err error) error {
	if err == nil {
		err = kit.FirstFailure(e.wcs[:n])
	}
	if err != nil {
		return errors.WithMessage(e.Cause(e.conn, err), "waiting for the peer's credit")
	}
	kit.Progress(ctx)
	e.meter.add(0, n)
	return e.credited(n)
}

// credited takes n credits, and posts their receives again.
func (e *endpoint) credited(n int) error {
	for k := range e.wcs[:n] {
		wc := &e.wcs[k]
		more := wc.Imm() - uint32(e.granted)
		if wc.Flags&verbs.WCWithImm == 0 || int64(more) > int64(e.slots()) || e.granted+int64(more) > e.Chunks() {
			return errors.Errorf("%v with the immediate %d arrived as a credit, but the count was %d of %d; try: a peer of this program's version", wc.Opcode, wc.Imm(), e.granted, e.Chunks())
		}
		e.granted += int64(more)
		e.recvs[0] = append(e.recvs[0], verbs.RecvWR{ID: creditID})
	}
	return e.flushRecvs(0)
}

func (e *endpoint) flushRecvs(q int) error {
	if len(e.recvs[q]) == 0 {
		return nil
	}
	err := e.pairs[q].PostRecv(e.recvs[q])
	e.recvs[q] = e.recvs[q][:0]
	return err
}

// give sends the peer a credit if the count grew by a quarter of the window. With last it sends
// any new count.
func (e *endpoint) give(ctx context.Context, count int64, last bool) error {
	pending := count - e.given
	if pending == 0 || !last && pending < int64(max(1, e.slots()/4)) {
		return nil
	}
	for e.credits == maxCredits {
		if err := e.awaitSends(ctx); err != nil {
			return err
		}
	}
	e.credits++
	e.given = count
	e.credit[0] = verbs.SendWR{ID: creditID, Opcode: verbs.OpSendWithImm, Flags: verbs.SendSignaled, Imm: uint32(count)}
	return e.pairs[0].PostSend(e.credit[:])
}

// measured runs this end's part, logs its result, and compares the sums.
func (e *endpoint) measured(ctx context.Context, c *rc.Conn, move func(context.Context) error) error {
	event.BulkBegun.Log(e.Logger, "move the data; the first chunk is shown, the others are counted", e.attrs()...)
	moving, stop := e.meter.start(ctx, e.Logger, e.Total)
	err := move(moving)
	if stopped := stop(); err == nil {
		err = stopped
	}
	if err != nil {
		return err
	}
	if err := e.data.compare(ctx, c); err != nil {
		return err
	}
	e.meter.report(e.data.summary())
	return nil
}
