// Package netstream is the job "net-stream": the client writes much data to a net.Conn over the
// queue pair, in writes of any size, and the server reads it. Package rnet makes the net.Conn.
//
// Two things can be seen in the figures at the end. Small writes share messages: a million writes
// of 64 bytes leave in some thousand WRITEs. And the server's reports of free space are few: one
// for about half a ring.
//
//	client                                          server
//	  Write, Write, Write …
//	  WRITE_WITH_IMM 8 KiB, imm 8192    ────────▶   Read, Read, Read …
//	  …
//	                                    ◀────────   imm 0x80000100: 256 units are free again
//	  …
//	  CloseWrite: imm 0xc0000000        ────────▶   Read: io.EOF
//	  compare                           ◀────────   the checksum, CloseWrite
package netstream

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/pkg/errors"
	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/cmd/internal/usage"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/rc"
)

// Jobs is the job, for the list in package run.
var Jobs = kit.List{{
	Name:   "net-stream",
	About:  "write much data to a net.Conn over the queue pair; compare checksums",
	Client: newClientSide,
	Server: func(*pflag.FlagSet) kit.Side { return kit.SideFunc(newServer) },
}}

func newClientSide(f *pflag.FlagSet) kit.Side {
	size, chunk, ring := kit.Size(256<<20), kit.Size(64<<10), kit.Size(2<<20)
	f.Var(&size, "size", "bytes of all data, such as 64K, 1M, 10G")
	f.Var(&chunk, "chunk", "bytes of each Write, such as 64, 4096, 64K, 1M")
	f.Var(&ring, "ring", "bytes of each ring: a power of two from 64K to 16M")
	return kit.SideFunc(func(s kit.Session) (kit.Endpoint, error) {
		if size < 1 || chunk < 1 || chunk > 16<<20 {
			return nil, usage.Errorf("writes of %v bytes cannot carry %v bytes; try: --size 256M --chunk 64K (at most 16M)", chunk, size)
		}
		e := &client{kit.NetConn{Ring: ring}, s.Logger, kit.Chunked{Total: int64(size), Chunk: int(chunk)}, s.Progress}
		return e, kit.CheckRing(ring)
	})
}

// client is the client's endpoint.
type client struct {
	kit.NetConn
	log *slog.Logger
	kit.Chunked
	bar io.Writer // for the progress; nil for none
}

// Run writes the data and compares the server's checksum with its own.
func (e *client) Run(ctx context.Context, _ *rc.Conn) error {
	stop, err := e.Open(ctx)
	if err != nil {
		return err
	}
	defer stop()
	event.NetBegun.Log(e.log, "write to the net.Conn", slog.Int64("bytes", e.Total), slog.Int("chunk", e.Chunk), slog.Int64("chunks", e.Chunks()))
	move := kit.ProgressBar(e.bar, e.Total)
	defer move(-1)
	data := make([]byte, e.Chunk)
	_, _ = rand.NewChaCha8([32]byte{}).Read(data) // it never fails
	sum := xxhash.New()
	began := time.Now()
	for i := range e.Chunks() {
		data[0] = byte(i) // no two writes in a row are equal
		part := data[:e.Length(i)]
		_, _ = sum.Write(part) // it never fails
		n, err := e.Write(part)
		if err != nil {
			return errors.WithMessagef(err, "after %d bytes of write %d", n, i)
		}
		kit.Progress(ctx)
		move(i * int64(e.Chunk))
	}
	if err := e.CloseWrite(); err != nil {
		return err
	}
	var theirs [8]byte
	if _, err := io.ReadFull(e.Conn, theirs[:]); err != nil {
		return errors.WithMessage(err, "read the server's checksum")
	}
	took := time.Since(began)
	if got := binary.BigEndian.Uint64(theirs[:]); got != sum.Sum64() {
		return errors.Errorf("the server's checksum is %016x and this end's %016x; try: the same release at both ends", got, sum.Sum64())
	}
	if err := e.End(); err != nil {
		return err
	}
	s := e.Stats()
	event.NetDone.Log(e.log, "SUCCESS, the data of both ends are the same", slog.Uint64("written", s.BytesWritten), slog.Uint64("read", s.BytesRead),
		slog.Uint64("messages", s.MessagesSent), slog.Uint64("reports", s.ReportsReceived), slog.Duration("took", took),
		slog.Float64("mib_per_s", kit.Rounded(float64(e.Total)/(1<<20)/took.Seconds())), slog.Uint64("waits_for_space", s.WaitsForSpace))
	return nil
}

// server is the server's endpoint.
type server struct {
	kit.NetConn
	log *slog.Logger
}

func newServer(s kit.Session) (kit.Endpoint, error) {
	conn, err := kit.AskedNetConn(s)
	return &server{conn, s.Logger}, err
}

// Run reads everything and writes its checksum.
func (e *server) Run(ctx context.Context, _ *rc.Conn) error {
	stop, err := e.Open(ctx)
	if err != nil {
		return err
	}
	defer stop()
	sum := xxhash.New()
	if _, err := io.Copy(digest{ctx, sum}, e.Conn); err != nil {
		return err
	}
	if _, err := e.Write(binary.BigEndian.AppendUint64(nil, sum.Sum64())); err != nil {
		return err
	}
	if err := e.End(); err != nil {
		return err
	}
	s := e.Stats()
	kit.Moved(ctx, int64(s.BytesRead+s.BytesWritten))
	event.NetDone.Log(e.log, "SUCCESS, everything was read", slog.Uint64("written", s.BytesWritten), slog.Uint64("read", s.BytesRead),
		slog.Uint64("messages", s.MessagesReceived), slog.Uint64("reports", s.ReportsSent))
	return nil
}

// digest sums up what was read. It gets the memory of the ring itself, without a copy.
type digest struct {
	ctx context.Context
	sum *xxhash.Digest
}

func (d digest) Write(b []byte) (int, error) {
	kit.Progress(d.ctx)
	return d.sum.Write(b)
}
