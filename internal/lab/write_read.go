// The job "write-read": the client WRITEs a text into the server's memory and
// READs it back. The server's processor takes no part in either: its program
// hears of them only over TCP, when all is done.

package lab

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

var writeReadJob = job{
	name:  "write-read",
	about: "WRITE a text into the server's memory, READ it back, compare",
	flags: []string{"text", "size"},
	text:  "client-wrote-this",
	client: func(o ClientOptions) (half, error) {
		if err := fitsRegion(o); err != nil {
			return nil, err
		}
		return &writeReadClient{narrator: narrator{o.Logger}, text: o.Text, region: o.Size}, nil
	},
	server: func(v visit) (half, error) {
		size, err := v.size()
		return &writeReadServer{narrator: narrator{v.Logger}, size: size}, err
	},
}

// fitsRegion refuses a text that is longer than the region it is to be written to.
func fitsRegion(o ClientOptions) error {
	if Size(len(o.Text)) > o.Size {
		return Usagef("the text has %d bytes, the server's region %d; try: a shorter one, or --size %d", len(o.Text), o.Size, len(o.Text))
	}
	return nil
}

const (
	regionName  = "buffer"         // what the server shares
	regionFirst = "server-initial" // what is in it at first

	idWrite = 1
	idRead  = 2

	barrierVerified = "read back"
)

// peerRegion is the region that the server shares, which must hold n bytes.
func peerRegion(c *rc.Conn, n int) (oob.Region, error) {
	r, ok := c.PeerRegion(regionName)
	if !ok || r.Length < uint64(n) {
		return r, fmt.Errorf("the server shares %d bytes as %q, and the job needs %d; try: a server of this program's version", r.Length, regionName, n)
	}
	return r, nil
}

// offerRegion makes the region that peerRegion is for, and says what the client may
// do to it.
func offerRegion(c *rc.Conn, size int, may verbs.Access) (*verbs.MR, error) {
	region, err := c.AllocMR("for the client", size, verbs.AccessLocalWrite|may)
	if err != nil {
		return nil, err
	}
	copy(region.Bytes(), regionFirst)
	c.Share(regionName, region)
	return region, nil
}

// writeReadClient is the client's half.
type writeReadClient struct {
	narrator
	text   string
	region Size // asked for

	source, back *verbs.MR
}

func (w *writeReadClient) configure(cfg *rc.Config) {
	params(cfg.Params).ask(int64(w.region))
}

func (w *writeReadClient) prepare(c *rc.Conn) (err error) {
	if w.source, err = c.AllocMR("to write from", max(len(w.text), 1), 0); err != nil {
		return err
	}
	copy(w.source.Bytes(), w.text)
	w.back, err = c.AllocMR("to read into", max(len(w.text), 1), verbs.AccessLocalWrite)
	return err
}

func (w *writeReadClient) run(ctx context.Context, c *rc.Conn) error {
	n := len(w.text)
	remote, err := peerRegion(c, n)
	if err != nil {
		return err
	}
	write := verbs.SendWR{ID: idWrite, Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled,
		SGL: gather(w.source, n), RemoteAddr: remote.Addr, RKey: remote.RKey}
	if err := w.postSend(c.QP(), write); err != nil {
		return err
	}
	if _, err := w.waitSend(ctx, c, "the WRITE's completion"); err != nil {
		return err
	}
	tell(w.log, "data", "text.written", "", "wrote to the server's memory", textAttr(w.text), slog.Int("bytes", n))

	read := verbs.SendWR{ID: idRead, Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled,
		SGL: gather(w.back, n), RemoteAddr: remote.Addr, RKey: remote.RKey}
	if err := w.postSend(c.QP(), read); err != nil {
		return err
	}
	if _, err := w.waitSend(ctx, c, "the READ's completion"); err != nil {
		return err
	}
	back := w.back.Bytes()[:n]
	w.memory("read back", back)
	tell(w.log, "data", "text.read", "", "read back from the server's memory", textAttr(string(back)), slog.Int("bytes", n))
	if i := differAt([]byte(w.text), back); i >= 0 {
		return fmt.Errorf("source and destination buffers differ from byte %d on; try: dmesg for errors of the device, and a capture of both ends", i)
	}
	tell(w.log, "data", "buffers.match", "", "SUCCESS, source and destination buffers match", slog.Int("bytes", n))
	return c.Barrier(ctx, barrierVerified)
}

// differAt is where two buffers of the same length first differ, -1 if nowhere.
func differAt(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// writeReadServer is the server's half: it offers memory, and waits.
type writeReadServer struct {
	narrator
	size   int
	region *verbs.MR
}

func (*writeReadServer) configure(*rc.Config) {}

func (w *writeReadServer) prepare(c *rc.Conn) (err error) {
	w.region, err = offerRegion(c, w.size, verbs.AccessRemoteWrite|verbs.AccessRemoteRead)
	return err
}

func (w *writeReadServer) run(ctx context.Context, c *rc.Conn) error {
	tell(w.log, "fast", "wait.begun", "", "wait for the client's WRITE and READ, of which no completion will tell")
	if err := c.Barrier(ctx, barrierVerified); err != nil {
		return err
	}
	data := w.region.Bytes()
	w.memory("the region", data)
	text, _, _ := bytes.Cut(data, []byte{0})
	tell(w.log, "data", "region.holds", "", "the region now begins with", textAttr(string(text)))
	return nil
}
