// Package writeread is the job "write-read": the client WRITEs a text into the server's memory
// and READs it back. The server's processor takes no part in the WRITE or the READ. The
// server's program learns about both only over TCP, when the job is done.
package writeread

import (
	"bytes"
	"context"
	"log/slog"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// Jobs is the job, for the list in package run.
var Jobs = kit.List{{
	Name:   "write-read",
	About:  "WRITE a text into the server's memory, READ it back, compare",
	Client: newClientSide,
	Server: func(*pflag.FlagSet) kit.Side { return kit.SideFunc(newServer) },
}}

// The work requests.
const (
	idWrite = 1
	idRead  = 2
)

const barrierVerified = "read back"

func newClientSide(f *pflag.FlagSet) kit.Side {
	return kit.WriterSide(f, "client-wrote-this", func(w kit.Writer) kit.Endpoint { return &client{Writer: w} })
}

// client is the client's endpoint.
type client struct {
	kit.Writer
	back *verbs.MR // where the text is read back to
}

func (w *client) Prepare(c *rc.Conn) (err error) {
	if err := w.Writer.Prepare(c); err != nil {
		return err
	}
	w.back, err = c.AllocMR("to read into", max(len(w.Text), 1), verbs.AccessLocalWrite)
	return err
}

// Run WRITEs the text, READs it back and compares.
func (w *client) Run(ctx context.Context, c *rc.Conn) error {
	n := len(w.Text)
	remote, err := w.Write(ctx, c, verbs.SendWR{ID: idWrite, Opcode: verbs.OpRDMAWrite})
	if err != nil {
		return err
	}
	w.LogText(&event.TextWritten, "wrote to the server's memory", w.Text, n)

	read := verbs.SendWR{ID: idRead, Opcode: verbs.OpRDMARead, SGL: kit.Gather(w.back, n), RemoteAddr: remote.Addr, RKey: remote.RKey}
	if _, err := w.Do(ctx, c, read, "the READ's completion"); err != nil {
		return err
	}
	back := w.back.Bytes()[:n]
	w.LogMemory("read back", back)
	w.LogText(&event.TextRead, "read back from the server's memory", string(back), n)
	if i := differAt([]byte(w.Text), back); i >= 0 {
		return errors.Errorf("source and destination buffers differ from byte %d on; try: dmesg for errors of the device, and a capture of both ends", i)
	}
	event.BuffersMatch.Log(w.Logger, "SUCCESS, source and destination buffers match", slog.Int("bytes", n))
	return c.TCP().Barrier(ctx, barrierVerified)
}

// differAt returns the first index at which two buffers of the same length differ, or -1 if
// they are equal.
func differAt(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// server is the server's endpoint. It offers memory and waits.
type server struct{ kit.Target }

func newServer(s kit.Session) (kit.Endpoint, error) {
	target, err := kit.NewTarget(s, verbs.AccessRemoteWrite|verbs.AccessRemoteRead)
	return &server{target}, err
}

func (w *server) Run(ctx context.Context, c *rc.Conn) error {
	event.PeerAwaited.Log(w.Logger, "wait for the client's WRITE and READ; they complete only at the client")
	if err := c.TCP().Barrier(ctx, barrierVerified); err != nil {
		return err
	}
	data := w.Region.Bytes()
	w.LogMemory("the region", data)
	text, _, _ := bytes.Cut(data, []byte{0})
	event.RegionHolds.Log(w.Logger, "the region now begins with", kit.TextAttr(kit.Beginning(text)))
	return nil
}
