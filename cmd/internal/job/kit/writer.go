// The ends of jobs that WRITE a text.

package kit

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// Writer WRITEs a text into the region of the server's [Target].
type Writer struct {
	Tracer
	Text string

	size   Size // of the server's region
	source *verbs.MR
}

// WriterSide returns the client's side of a job whose endpoint has a Writer. It defines the
// flags --text and --size. text is the default value of --text.
func WriterSide(f *pflag.FlagSet, text string, endpoint func(Writer) Endpoint) Side {
	const room = "the server's region"
	var flags Text
	flags.AddFlags(f, text, room, 4096)
	return SideFunc(func(s Session) (Endpoint, error) {
		if err := flags.Check(room); err != nil {
			return nil, err
		}
		return endpoint(Writer{Tracer: Tracer{s.Logger}, Text: flags.Text, size: flags.Size}), nil
	})
}

// Configure asks the server for a region of --size bytes.
func (w *Writer) Configure(cfg *rc.Config) { Params(cfg.Params).AskSize(w.size) }

// Prepare registers the memory to write from.
func (w *Writer) Prepare(c *rc.Conn) (err error) {
	w.source, err = c.AllocMR("to write from", max(len(w.Text), 1), 0)
	if err == nil {
		copy(w.source.Bytes(), w.Text)
	}
	return err
}

// Write WRITEs the text to the beginning of the server's region and waits for the completion.
// The request has the ID, the opcode and the immediate of wr. Write returns the region.
func (w *Writer) Write(ctx context.Context, c *rc.Conn, wr verbs.SendWR) (oob.Region, error) {
	remote, err := PeerRegion(c, len(w.Text))
	if err != nil {
		return remote, err
	}
	wr.SGL, wr.RemoteAddr, wr.RKey = Gather(w.source, len(w.Text)), remote.Addr, remote.RKey
	_, err = w.Do(ctx, c, wr, "the WRITE's completion")
	return remote, err
}

// Target is the server of such a job: it offers the memory that the client writes to.
type Target struct {
	Tracer
	Size   int
	Region *verbs.MR

	access verbs.Access
}

// NewTarget returns a Target of the size that the client asks for. access says what the client may do.
func NewTarget(s Session, access verbs.Access) (Target, error) {
	size, err := s.AskedSize()
	return Target{Tracer: Tracer{s.Logger}, Size: size, access: access}, err
}

// Configure gives the queue pair the access.
func (t *Target) Configure(cfg *rc.Config) { cfg.Access = t.access }

// Memory returns the bytes of the region.
func (t *Target) Memory() int64 { return int64(t.Size) }

// initialText is what the region holds before the client writes to it.
const initialText = "server-initial"

// Prepare allocates the region and shares it with the client, where [PeerRegion] returns it.
func (t *Target) Prepare(c *rc.Conn) (err error) {
	if t.Region, err = c.AllocMR("for the client", t.Size, verbs.AccessLocalWrite|t.access); err != nil {
		return err
	}
	copy(t.Region.Bytes(), initialText)
	c.Share(RegionName, t.Region)
	return nil
}
