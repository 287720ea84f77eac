// The exchange of perftest's programs over TCP. codec.go has the bytes. Every message is a
// swap, in which the client writes first, so that both ends wait for each other.
//
//	version, page size, cache line, path MTU
//	                   (latency, except of SEND: they meet)
//	key of each queue pair
//	RTR, RTS
//	                   (SEND: they meet)
//	the keys again
//	                   (all others: they meet)
//	…                  the measurement: perftest.go
//	they meet          "done"
//
// To meet, the ends swap the key of the first queue pair once more.

package perftest

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/job/bench/measure"
	"github.com/rawverbs/rawverbs/cmd/internal/peer"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// swap sends mine and reads the peer's message, in the order of this end's role.
func (p *endpoint) swap(ctx context.Context, what string, mine []byte) (theirs []byte, err error) {
	if p.Plan.Client {
		if err := p.tcp.Send(ctx, what, mine); err != nil {
			return nil, err
		}
		return p.receive(ctx, what, len(mine))
	}
	if theirs, err = p.receive(ctx, what, len(mine)); err != nil {
		return nil, err
	}
	return theirs, p.tcp.Send(ctx, what, mine)
}

// agree swaps the version. A server answers only its own version, and hangs up otherwise.
func (p *endpoint) agree(ctx context.Context) error {
	const what = "perftest's version"
	mine := appendVersion(nil)
	if p.Plan.Client {
		theirs, err := p.swap(ctx, what, mine)
		if err != nil {
			return err
		}
		return decodeVersion(theirs)
	}
	theirs, err := p.receive(ctx, what, len(mine))
	if err != nil {
		return err
	}
	if err := decodeVersion(theirs); err != nil {
		return err
	}
	return p.tcp.Send(ctx, what, mine)
}

// number swaps a size that determines the layout of memory, and returns the larger one.
func (p *endpoint) number(ctx context.Context, what string, mine int) (int, error) {
	message, err := appendNumber(nil, mine)
	if err != nil {
		return 0, err
	}
	data, err := p.swap(ctx, what, message)
	if err != nil {
		return 0, err
	}
	theirs, err := decodeNumber(data)
	return max(mine, theirs), errors.WithMessage(err, what)
}

// pathMTU swaps the path MTU and returns the peer's.
func (p *endpoint) pathMTU(ctx context.Context, mine int) (int, error) {
	message, err := appendMTU(nil, mine)
	if err != nil {
		return 0, err
	}
	data, err := p.swap(ctx, "path MTU", message)
	if err != nil {
		return 0, err
	}
	return decodeMTU(data)
}

// exchange runs the exchange up to the measurement.
func (p *endpoint) exchange(ctx context.Context, c *rc.Conn, up func([]oob.Endpoint) error) (err error) {
	p.tcp = peer.NewTCP(p.Logger, c.TCP())
	if err := p.agree(ctx); err != nil {
		return err
	}
	if p.Plan.Page, err = p.number(ctx, "page size", os.Getpagesize()); err != nil {
		return err
	}
	if p.Plan.CacheLine, err = p.number(ctx, "cache line", measure.CacheLine); err != nil {
		return err
	}
	if p.Plan.CacheLine > p.Plan.Page {
		return errors.Errorf("the peer's cache line of %d bytes is larger than a page of %d; try: perftest of Debian 12 there", p.Plan.CacheLine, p.Plan.Page)
	}
	mtu, err := p.pathMTU(ctx, c.LocalEndpoints()[0].MTU)
	if err != nil {
		return err
	}
	if err := p.makeKeys(c); err != nil {
		return err
	}
	send := p.Plan.Op == measure.Send
	if p.Plan.Latency && !send {
		if err := p.meet(ctx); err != nil {
			return err
		}
	}
	if err := p.swapKeys(ctx); err != nil {
		return err
	}
	if err := p.checkFamilies(); err != nil {
		return err
	}
	if err := up(p.endpoints(c.LocalEndpoints(), mtu)); err != nil {
		return err
	}
	if send {
		if err := p.meet(ctx); err != nil {
			return err
		}
	}
	if err := p.swapKeys(ctx); err != nil || send {
		return err
	}
	return p.meet(ctx)
}

// makeKeys registers memory, whose layout is known now, and makes this end's keys.
func (p *endpoint) makeKeys(c *rc.Conn) (err error) {
	if p.region, err = c.AllocMR("perftest", p.Plan.Bytes(), p.Plan.Access()); err != nil {
		return err
	}
	for i, local := range c.LocalEndpoints() {
		key := qpKey{
			LID: local.LID, OutReads: uint16(local.ResponderResources), QPN: local.QPN, PSN: local.PSN, RKey: p.region.RKey(),
			Addr: p.region.Addr() + uint64(p.Plan.RemoteOffset(i)), GID: local.GID,
		}
		message, err := appendKey(nil, key)
		if err != nil {
			return err
		}
		p.mine = append(p.mine, message)
	}
	p.gid = verbs.GID(c.LocalEndpoints()[0].GID)
	return nil
}

// swapKeys swaps the key of each queue pair.
func (p *endpoint) swapKeys(ctx context.Context) error {
	for i := range p.mine {
		name := "the queue pair's key"
		if len(p.mine) > 1 {
			name = fmt.Sprintf("the key of queue pair %d of %d", i+1, len(p.mine))
		}
		if err := p.swapKey(ctx, name, i); err != nil {
			return err
		}
	}
	return nil
}

// meet waits for the peer by swapping the first key.
func (p *endpoint) meet(ctx context.Context) error {
	return p.swapKey(ctx, "the first key, to meet", 0)
}

func (p *endpoint) swapKey(ctx context.Context, name string, i int) error {
	if p.Plan.Client {
		if err := p.tcp.Send(ctx, name, p.mine[i]); err != nil {
			return err
		}
	}
	data, err := p.receive(ctx, name, shortKeySize)
	if err != nil {
		return err
	}
	if keyContinues(data) {
		rest, err := p.receive(ctx, name+": its end", keySize-len(data))
		if err != nil {
			return err
		}
		data = append(data, rest...)
	}
	if err := p.heardKey(i, data); err != nil || p.Plan.Client {
		return err
	}
	return p.tcp.Send(ctx, name, p.mine[i])
}

// heardKey checks a key from the peer. A key that the peer has sent before must be the same;
// otherwise the peer is at another step, because it has other flags.
func (p *endpoint) heardKey(i int, data []byte) error {
	key, err := decodeKey(data)
	if err != nil {
		return err
	}
	if i == len(p.theirs) {
		for _, k := range p.theirs {
			if k.QPN == key.QPN {
				return p.differs(fmt.Sprintf("the peer has %d queue pairs, but this end has %d", i, len(p.mine)), "the same -q at both ends")
			}
		}
		p.theirs = append(p.theirs, key)
		return nil
	}
	if p.theirs[i].QPN != key.QPN {
		return p.differs(fmt.Sprintf("the peer sent the key of queue pair %#06x, expected %#06x again", key.QPN, p.theirs[i].QPN),
			"the same test, and the same -q, at both ends")
	}
	return nil
}

// differs returns an error for a peer that does something else than this end.
func (p *endpoint) differs(problem, try string) error {
	return &oob.ProtocolError{Problem: problem, Try: "try: " + try}
}

// checkFamilies returns an error if only one of the two GIDs is an IPv4 address, as perftest
// does.
func (p *endpoint) checkFamilies() error {
	mine, theirs := p.gid, verbs.GID(p.theirs[0].GID)
	if netip.AddrFrom16(mine).Is4In6() == netip.AddrFrom16(theirs).Is4In6() {
		return nil
	}
	return errors.Errorf("this end's GID %v and the peer's %v are of different address families; try: -x with another index at the peer, or another gid_index here", mine, theirs)
}

// endpoints returns the peer's endpoints.
func (p *endpoint) endpoints(like []oob.Endpoint, mtu int) []oob.Endpoint {
	for i, k := range p.theirs {
		reads := uint8(min(k.OutReads, 255))
		like[i].QPN, like[i].PSN, like[i].LID, like[i].GID, like[i].MTU = k.QPN, k.PSN, k.LID, k.GID, mtu
		like[i].InitiatorDepth, like[i].ResponderResources = reads, reads
	}
	return like
}

// swapReports sends this end's result and receives the peer's. Each value is a separate swap.
// If the client measures alone, the server has no result; perftest's server then sends
// uninitialized memory.
func (p *endpoint) swapReports(ctx context.Context, mine measure.Result) (measure.Result, error) {
	message, err := appendReport(nil, p.toReport(mine))
	if err != nil {
		return measure.Result{}, err
	}
	var heard []byte
	for i, what := range []string{"size", "iterations", "peak bandwidth", "average bandwidth", "message rate"} {
		theirs, err := p.swap(ctx, "the report: "+what, message[i*valueSize:][:valueSize])
		if err != nil {
			return measure.Result{}, err
		}
		heard = append(heard, theirs...)
	}
	if p.Plan.Client && !p.Plan.Both {
		return measure.Result{}, nil
	}
	report, err := decodeReport(heard)
	if err == nil && (report.Size < 1 || report.Size > uint64(p.Plan.Size)) {
		err = errors.Errorf("the peer reports messages of %d bytes, expected %d; try: -s %d there", report.Size, p.Plan.Size, p.Plan.Size)
	}
	return p.fromReport(report), err
}

func (p *endpoint) toReport(r measure.Result) bandwidthReport {
	report := bandwidthReport{Size: uint64(r.Size), Iterations: uint64(r.Iterations)}
	if b := r.Bandwidth; b != nil {
		report.Peak, report.Average, report.Rate = p.Unit.Of(b.Peak), p.Unit.Of(b.Average), b.Messages/1e6
	}
	return report
}

func (p *endpoint) fromReport(r bandwidthReport) measure.Result {
	bytes := 1 / p.Unit.Of(1)
	return measure.Result{
		Size: int(r.Size), Iterations: int64(r.Iterations),
		Bandwidth: &measure.Bandwidth{Peak: r.Peak * bytes, Average: r.Average * bytes, Messages: r.Rate * 1e6},
	}
}

// farewell meets the peer once more and swaps "done". perftest's ends write "done" and do not
// read it. This end reads it, so that the peer does not write to a connection that is reset.
func (p *endpoint) farewell(ctx context.Context) error {
	const what = "done"
	if err := p.tcp.Send(ctx, what, []byte(doneWord)); err != nil {
		return nil // the peer does not wait and has left
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if data, err := p.tcp.Receive(ctx, what, len(doneWord)); err == nil && string(data) != doneWord {
		return p.differs(fmt.Sprintf("the peer sent %q, expected %q", data, doneWord), "the same test with the same flags at both ends")
	}
	return nil
}
