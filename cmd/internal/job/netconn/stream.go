// The job net-stream: the client writes much data to a net.Conn, in writes of any size, and the
// server reads it.
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

package netconn

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
)

func newStreamClient(f *pflag.FlagSet) kit.Side {
	size, chunk, ring := kit.Size(256<<20), kit.Size(64<<10), kit.Size(2<<20)
	f.Var(&size, "size", "bytes of all data, such as 64K, 1M, 10G")
	f.Var(&chunk, "chunk", "bytes of each Write, such as 64, 4096, 64K, 1M")
	f.Var(&ring, "ring", "bytes of each ring: a power of two from 64K to 16M")
	return kit.SideFunc(func(s kit.Session) (kit.Endpoint, error) {
		if size < 1 || chunk < 1 || chunk > 16<<20 {
			return nil, usage.Errorf("writes of %v bytes cannot carry %v bytes; try: --size 256M --chunk 64K (at most 16M)", chunk, size)
		}
		return newEnd(&s, ring, &stream{kit.Chunked{Total: int64(size), Chunk: int(chunk)}, s.Progress})
	})
}

// stream writes the data and compares the server's checksum with its own.
type stream struct {
	kit.Chunked
	bar io.Writer // for the progress; nil for none
}

func (all *stream) do(ctx context.Context, e *end) error {
	event.NetBegun.Log(e.log, "write to the net.Conn", slog.Int64("bytes", all.Total), slog.Int("chunk", all.Chunk), slog.Int64("chunks", all.Chunks()))
	move := kit.ProgressBar(all.bar, all.Total)
	defer move(-1)
	data := make([]byte, all.Chunk)
	_, _ = rand.NewChaCha8([32]byte{}).Read(data) // it never fails
	sum := xxhash.New()
	began := time.Now()
	for i := range all.Chunks() {
		data[0] = byte(i) // no two writes in a row are equal
		part := data[:all.Length(i)]
		_, _ = sum.Write(part) // it never fails
		n, err := e.Write(part)
		if err != nil {
			return errors.WithMessagef(err, "after %d bytes of write %d", n, i)
		}
		kit.Progress(ctx)
		move(i * int64(all.Chunk))
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
	if err := e.finish(); err != nil {
		return err
	}
	s := e.Stats()
	e.done("SUCCESS, the data of both ends are the same", s.MessagesSent, s.ReportsReceived, slog.Duration("took", took),
		slog.Float64("mib_per_s", kit.Rounded(float64(all.Total)/(1<<20)/took.Seconds())), slog.Uint64("waits_for_space", s.WaitsForSpace))
	return nil
}

// sum reads everything and writes its checksum.
type sum struct{}

func (sum) do(ctx context.Context, e *end) error {
	hash := xxhash.New()
	if _, err := io.Copy(digest{ctx, hash}, e.Conn); err != nil {
		return err
	}
	if _, err := e.Write(binary.BigEndian.AppendUint64(nil, hash.Sum64())); err != nil {
		return err
	}
	if err := e.finish(); err != nil {
		return err
	}
	s := e.Stats()
	kit.Moved(ctx, int64(s.BytesRead+s.BytesWritten))
	e.done("SUCCESS, everything was read", s.MessagesReceived, s.ReportsSent)
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
