// A net.Conn over the queue pair of a job, for the jobs net-echo and net-stream.

package kit

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/usage"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/rnet"
)

// NetConn is what both ends of such a job have. Conn is nil before Prepare.
type NetConn struct {
	*rnet.Conn
	Ring Size // bytes of each of the two rings
}

// AskedNetConn returns the server's end: its rings have the size that the client asks for.
func AskedNetConn(s Session) (NetConn, error) {
	ring, err := s.AskedSize()
	if err == nil {
		err = CheckRing(Size(ring))
	}
	return NetConn{Ring: Size(ring)}, err
}

// CheckRing refuses a ring that rnet refuses.
func CheckRing(ring Size) error {
	if ring < 64<<10 || ring > 16<<20 || ring&(ring-1) != 0 {
		return usage.Errorf("a ring of %v bytes is not possible; try: --ring 64K, 128K, … or 16M", ring)
	}
	return nil
}

// Configure sets what the queue pair needs, and asks the server for rings of the same size.
func (n *NetConn) Configure(cfg *rc.Config) {
	rnet.Configure(cfg)
	Params(cfg.Params).AskSize(n.Ring)
}

// Memory returns the bytes of both rings.
func (n *NetConn) Memory() int64 { return 2 * int64(n.Ring) }

// Prepare makes the Conn: its rings are registered, and receives without memory are posted.
func (n *NetConn) Prepare(c *rc.Conn) (err error) {
	n.Conn, err = rnet.Attach(c, rnet.Config{Ring: int(n.Ring)})
	return err
}

// Close closes the Conn, if the connection came as far as Prepare.
func (n *NetConn) Close() error {
	if n.Conn == nil {
		return nil
	}
	return n.Conn.Close()
}

// Open starts the Conn. The end of ctx ends its reads and writes; stop ends that.
func (n *NetConn) Open(ctx context.Context) (stop func() bool, err error) {
	if err := n.Start(); err != nil {
		return nil, err
	}
	return context.AfterFunc(ctx, func() { _ = n.SetDeadline(time.Unix(1, 0)) }), nil
}

// whyEnded adds the cause of ctx to the error of a read or write that the end of ctx has ended.
func whyEnded(ctx context.Context, err error) error {
	if ctx.Err() == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
}

// End ends the writing and reads until the peer does the same. The job's barrier follows.
func (n *NetConn) End() error {
	if err := n.CloseWrite(); err != nil {
		return err
	}
	if err := n.Flush(); err != nil { // the barrier must not overtake what was written
		return err
	}
	left, err := io.Copy(io.Discard, n.Conn)
	if err == nil && left > 0 {
		err = errors.Errorf("the peer sent %d bytes more than it should; try: a peer of this program's version", left)
	}
	return err
}
