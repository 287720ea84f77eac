// The client of jobs that WRITE a text.

package job

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// Writer WRITEs a text into the region that the server shares by [OfferRegion].
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
