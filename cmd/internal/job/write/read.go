// The job write-read: the client WRITEs a text into the server's memory and READs it back. The
// server's processor takes no part in the WRITE or the READ. The server's program learns about both
// only over TCP, when the job is done.

package write

import (
	"bytes"
	"context"
	"log/slog"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

const barrierVerified = "read back"

type readClient struct {
	writer
	back *verbs.MR // where the text is read back to
}

func (w *readClient) Prepare(c *rc.Conn) (err error) {
	if err := w.writer.Prepare(c); err != nil {
		return err
	}
	w.back, err = c.AllocMR("to read into", max(len(w.text), 1), verbs.AccessLocalWrite)
	return err
}

// Run WRITEs the text, READs it back and compares.
func (w *readClient) Run(ctx context.Context, c *rc.Conn) error {
	n := len(w.text)
	remote, err := w.write(ctx, c, verbs.SendWR{ID: idWrite, Opcode: verbs.OpRDMAWrite})
	if err != nil {
		return err
	}
	w.LogText(&event.TextWritten, "wrote to the server's memory", w.text, n)

	read := verbs.SendWR{ID: idRead, Opcode: verbs.OpRDMARead, SGL: kit.Gather(w.back, n), RemoteAddr: remote.Addr, RKey: remote.RKey}
	if _, err := w.Do(ctx, c, read, "the READ's completion"); err != nil {
		return err
	}
	back := w.back.Bytes()[:n]
	w.LogMemory("read back", back)
	w.LogText(&event.TextRead, "read back from the server's memory", string(back), n)
	if i := differAt([]byte(w.text), back); i >= 0 {
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

// readServer offers memory and waits.
type readServer struct{ target }

func (t *readServer) Run(ctx context.Context, c *rc.Conn) error {
	event.PeerAwaited.Log(t.Logger, "wait for the client's WRITE and READ; they complete only at the client")
	if err := c.TCP().Barrier(ctx, barrierVerified); err != nil {
		return err
	}
	data := t.region.Bytes()
	t.LogMemory("the region", data)
	text, _, _ := bytes.Cut(data, []byte{0})
	event.RegionHolds.Log(t.Logger, "the region now begins with", kit.TextAttr(kit.Beginning(text)))
	return nil
}
