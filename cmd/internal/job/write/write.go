// Package write is the jobs "write-read" and "write-imm": the client WRITEs a text into the server's memory.
package write

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// Jobs are the jobs, for the list in package run.
var Jobs = kit.List{{
	Name:   "write-read",
	About:  "WRITE a text into the server's memory, READ it back, compare",
	Client: clientSide("client-wrote-this", func(w writer) kit.Endpoint { return &readClient{writer: w} }),
	Server: serverSide(verbs.AccessRemoteWrite|verbs.AccessRemoteRead, func(t target) kit.Endpoint { return &readServer{t} }),
}, {
	Name:   "write-imm",
	About:  "WRITE a text with immediate data, which completes the server's RECV",
	Client: clientSide("client-wrote-with-imm", func(w writer) kit.Endpoint { return &immClient{w} }),
	Server: serverSide(verbs.AccessRemoteWrite, func(t target) kit.Endpoint { return &immServer{t} }),
}}

// The IDs of the work requests at each end.
const (
	idWrite = 1
	idRead  = 2
	idRecv  = 1
)

// writer is the client: it WRITEs a text into the region of the server's target.
type writer struct {
	kit.Tracer
	text   string
	size   kit.Size // of the server's region
	source *verbs.MR
}

// clientSide returns the client's side of a job, with the flags --text and --size. text is the default value of --text.
func clientSide(text string, endpoint func(writer) kit.Endpoint) func(*pflag.FlagSet) kit.Side {
	return func(f *pflag.FlagSet) kit.Side {
		const room = "the server's region"
		var flags kit.Text
		flags.AddFlags(f, text, room, 4096)
		return kit.SideFunc(func(s kit.Session) (kit.Endpoint, error) {
			if err := flags.Check(room); err != nil {
				return nil, err
			}
			return endpoint(writer{Tracer: kit.Tracer{Logger: s.Logger}, text: flags.Text, size: flags.Size}), nil
		})
	}
}

// Configure asks the server for a region of --size bytes.
func (w *writer) Configure(cfg *rc.Config) { kit.Params(cfg.Params).AskSize(w.size) }

// Prepare registers the memory to write from.
func (w *writer) Prepare(c *rc.Conn) (err error) {
	w.source, err = c.AllocMR("to write from", max(len(w.text), 1), 0)
	if err == nil {
		copy(w.source.Bytes(), w.text)
	}
	return err
}

// write WRITEs the text to the beginning of the server's region and waits for the completion.
// The request has the ID, the opcode and the immediate of wr. It returns the region.
func (w *writer) write(ctx context.Context, c *rc.Conn, wr verbs.SendWR) (oob.Region, error) {
	remote, err := kit.PeerRegion(c, len(w.text))
	if err != nil {
		return remote, err
	}
	wr.SGL, wr.RemoteAddr, wr.RKey = kit.Gather(w.source, len(w.text)), remote.Addr, remote.RKey
	_, err = w.Do(ctx, c, wr, "the WRITE's completion")
	return remote, err
}

// target is the server: it offers the memory that the client writes to.
type target struct {
	kit.Tracer
	size   int
	access verbs.Access // of the client
	region *verbs.MR
}

// serverSide returns the server's side of a job, whose target has the size that the client asks for.
func serverSide(access verbs.Access, endpoint func(target) kit.Endpoint) func(*pflag.FlagSet) kit.Side {
	return func(*pflag.FlagSet) kit.Side {
		return kit.SideFunc(func(s kit.Session) (kit.Endpoint, error) {
			size, err := s.AskedSize()
			return endpoint(target{Tracer: kit.Tracer{Logger: s.Logger}, size: size, access: access}), err
		})
	}
}

// Configure gives the queue pair the access.
func (t *target) Configure(cfg *rc.Config) { cfg.Access = t.access }

// Memory returns the bytes of the region.
func (t *target) Memory() int64 { return int64(t.size) }

// initialText is what the region holds before the client writes to it.
const initialText = "server-initial"

// Prepare allocates the region and shares it with the client, where [kit.PeerRegion] returns it.
func (t *target) Prepare(c *rc.Conn) (err error) {
	if t.region, err = c.AllocMR("for the client", t.size, verbs.AccessLocalWrite|t.access); err != nil {
		return err
	}
	copy(t.region.Bytes(), initialText)
	c.Share(kit.RegionName, t.region)
	return nil
}
