// Package file is the job "file": the client sends a file chunk by chunk, by
// WRITE_WITH_IMM, into a ring of slots in the server's memory. The client writes to a slot
// again only after the server has stored its chunk and has given the slot back by a
// SEND_WITH_IMM, a credit. So a file of any size goes through little memory, and a slow
// disk slows the client down instead of losing data.
//
//	client                                              server
//	  WRITE_WITH_IMM chunk 0 into slot 0, imm 0  ──────▶  RECV: byte_len is the chunk's length
//	  …                                                   write it to the file
//	  ◀──────  SEND_WITH_IMM: imm 1, 1 chunk is stored
//	  …
//	  WRITE_WITH_IMM of the SHA-256, imm = chunks  ─────▶  compare, give the file its name
//	  ◀──────  SEND_WITH_IMM: imm = chunks + 1, all is done
//
// The SHA-256 is the last message. The last credit means that the file is complete, on the
// disk, and has its name. resume.go says how a client goes on after a lost connection.
package file

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"math"
	"path/filepath"
	"strconv"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/cmd/internal/job/file/folder"
	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/cmd/internal/usage"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// Jobs is the job, for the list in package run.
var Jobs = kit.List{{
	Name:   "file",
	About:  "send a file in chunks by WRITE_WITH_IMM, with flow control; compare SHA-256",
	Client: newClientSide,
	Server: newServerSide,
}}

// The parameters by which the client describes its file to the server.
const (
	paramFileName = "file_name"
	paramFileSize = "file_size" // bytes
)

// fileSlots is the maximum number of slots in a ring.
const fileSlots = 16

// transfer is what both ends know about the file. Its messages are numbered: first the chunks,
// then the SHA-256.
type transfer struct {
	kit.Tracer
	kit.Chunked
	name  string
	slots int
	ring  *verbs.MR
	port  uint8
}

// layOut chooses the slots of a ring of at most most bytes.
func (t *transfer) layOut(most kit.Size) error {
	if kit.Size(t.Chunk) > most {
		return errors.Errorf("the client's chunks have %v bytes, but the server gives at most %v; try: rdma_client --chunk %v, or rdma_server --max-size", kit.Size(t.Chunk), most, most)
	}
	t.slots = int(min(fileSlots, int64(most)/int64(t.Chunk), t.messages()))
	return nil
}

// makeRing registers the slots, if the device can carry a chunk in one message.
func (t *transfer) makeRing(c *rc.Conn, name string, access verbs.Access) (err error) {
	if err := t.Check(c.Device(), t.port); err != nil {
		return err
	}
	t.ring, err = c.AllocMR(name, t.slots*t.Chunk, access)
	return err
}

func (t *transfer) messages() int64 { return t.Chunks() + 1 }

// length returns the number of bytes of message n.
func (t *transfer) length(n int64) int {
	if n == t.Chunks() {
		return sha256.Size
	}
	return t.Chunked.Length(n)
}

// offset returns the offset in the ring of message n's slot.
func (t *transfer) offset(n int64) int { return int(n%int64(t.slots)) * t.Chunk }

// slot returns the memory of message n in the ring.
func (t *transfer) slot(n int64) []byte { return t.ring.Bytes()[t.offset(n):][:t.length(n)] }

// at returns the Tracer for message n. The first two chunks and the SHA-256 are always logged,
// the other chunks only with -vv.
func (t *transfer) at(n int64) kit.Tracer {
	if n < 2 || n >= t.Chunks() {
		return t.Tracer
	}
	return t.Quieter()
}

// postRecvs posts one receive per slot: at the server for the chunk, at the client for the
// credit. The receives have no memory, because a chunk is written to its slot, and a credit is
// only an immediate.
func (t *transfer) postRecvs(c *rc.Conn) error {
	for n := range t.slots {
		if err := t.at(int64(n)).PostRecv(c.QP(), verbs.RecvWR{ID: uint64(n)}); err != nil {
			return err
		}
	}
	return nil
}

// attrs returns the attributes of the transfer for a log record.
func (t *transfer) attrs(more ...slog.Attr) []slog.Attr {
	return append([]slog.Attr{slog.String("name", t.name), slog.Int64("bytes", t.Total)}, more...)
}

// begun returns the attributes of the begin. first is the first chunk, if the client may go on.
func (t *transfer) begun(mayGoOn bool, first int64) []slog.Attr {
	attrs := t.attrs(slog.Int64("chunks", t.Chunks()), slog.Int("chunk", t.Chunk), slog.Int("slots", t.slots))
	if mayGoOn {
		attrs = append(attrs, slog.Int64("first_chunk", first))
	}
	return attrs
}

// client is the client's endpoint.
type client struct {
	transfer
	source *source
	past   *past     // what the attempts of this client know; nil if there is only one
	digest hash.Hash // of the bytes read
	bar    io.Writer // for the progress; nil for none

	sent     int64         // messages that the server's device has acknowledged
	credited int64         // messages whose slots are free again
	waited   time.Duration // time spent waiting for free slots
	stored   bool          // the server has the file
}

func newClientSide(f *pflag.FlagSet) kit.Side {
	path := f.StringP("file", "f", "", "the file to send")
	name := f.String("name", "", "the file's name at the server (default: the last part of its path)")
	chunk := kit.Size(64 << 10)
	f.Var(&chunk, "chunk", "bytes of each request, such as 4096, 64K, 1M")
	var attempts *past
	return kit.SideFunc(func(s kit.Session) (kit.Endpoint, error) {
		if !f.Changed("file") {
			return nil, usage.Errorf("the job file needs --file: the file to send")
		}
		if s.Again && attempts == nil {
			attempts = newPast()
		}
		return newClient(s, *path, *name, chunk, attempts)
	})
}

func newClient(session kit.Session, path, name string, chunk kit.Size, attempts *past) (kit.Endpoint, error) {
	if chunk < sha256.Size || chunk > math.MaxInt32 {
		return nil, usage.Errorf("chunks of %v bytes are not possible; try: --chunk 64K, at least %d", chunk, sha256.Size)
	}
	s, err := openSource(path)
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = filepath.Base(path)
	}
	if err := folder.CheckName(name); err != nil {
		kit.CloseAll(&err, s)
		return nil, usage.Errorf("%w (rdma_client --name)", err)
	}
	if err := attempts.check(s, chunk); err != nil {
		kit.CloseAll(&err, s)
		return nil, err
	}
	return &client{
		past:     attempts,
		transfer: transfer{Tracer: kit.Tracer{Logger: session.Logger}, Chunked: kit.Chunked{Total: s.size(), Chunk: int(chunk)}, name: name, port: session.Port},
		source:   s, digest: sha256.New(), bar: session.Progress,
	}, nil
}

// Close closes the file.
func (f *client) Close() error { return f.source.Close() }

func (f *client) Configure(cfg *rc.Config) {
	cfg.Params[paramFileName] = f.name
	cfg.Params[paramFileSize] = strconv.FormatInt(f.Total, 10)
	cfg.Params[kit.ParamChunk] = strconv.Itoa(f.Chunk)
	f.past.ask(cfg.Params)
	cfg.Cap.MaxSendWR, cfg.Cap.MaxRecvWR = fileSlots, fileSlots
}

// Prepare makes a ring like the server's, to send from.
func (f *client) Prepare(c *rc.Conn) error {
	most, err := kit.Params(c.PeerHello().Params).MaxSize()
	if err != nil {
		return err
	}
	if err := f.layOut(most); err != nil {
		return err
	}
	if err := f.makeRing(c, "to send from", 0); err != nil {
		return err
	}
	return f.postRecvs(c)
}

func (f *client) Run(ctx context.Context, c *rc.Conn) error {
	remote, err := kit.PeerRegion(c, f.slots*f.Chunk)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := f.resume(ctx, c); err != nil {
		return err
	}
	event.FileBegun.Log(f.Logger, "send the file "+f.source.path+"; -vv shows every chunk", f.begun(f.past != nil, f.sent)...)
	if err := f.sendAll(ctx, c, remote); err != nil {
		return err
	}
	f.stored = true
	event.FileSent.Log(f.Logger, "SUCCESS, the server has the file, and its SHA-256 is the same",
		f.attrs(slog.String("sha256", hex.EncodeToString(f.digest.Sum(nil))), slog.Duration("took", time.Since(began)), slog.Duration("waited_for_slots", f.waited))...)
	return f.past.part(ctx, c)
}

// Succeeded reports whether the server has the file. Then only the goodbye is left.
func (f *client) Succeeded() bool { return f.stored }

// sendAll sends all messages, and returns when the server has given back the last slot.
func (f *client) sendAll(ctx context.Context, c *rc.Conn, remote oob.Region) error {
	move := kit.ProgressBar(f.bar, f.Total)
	defer move(-1)
	for n := f.sent; n < f.messages(); n++ {
		if err := f.awaitSlot(ctx, c, n); err != nil {
			return err
		}
		if err := f.load(n); err != nil {
			return err
		}
		write := verbs.SendWR{ID: uint64(n), Opcode: verbs.OpRDMAWriteWithImm, Flags: verbs.SendSignaled, Imm: uint32(n),
			SGL: []verbs.SGE{f.ring.SGE(f.offset(n), f.length(n))}, RemoteAddr: remote.Addr + uint64(f.offset(n)), RKey: remote.RKey}
		if err := f.at(n).PostSend(c.QP(), write); err != nil {
			return err
		}
		move(f.credited * int64(f.Chunk))
	}
	return f.awaitCredits(ctx, c, f.messages(), f.messages())
}

// awaitSlot returns when message n's slot is free at both ends.
func (f *client) awaitSlot(ctx context.Context, c *rc.Conn, n int64) error {
	began := time.Now()
	err := f.awaitCredits(ctx, c, n-int64(f.slots)+1, n)
	f.waited += time.Since(began)
	return err
}

// awaitCredits returns when the first done messages have completed and their slots were given
// back. posted messages are posted. A credit alone is not enough: until its acknowledgement is
// here, a message may be sent again, so its memory must not change. And if the connection
// breaks, the completion has the reason.
func (f *client) awaitCredits(ctx context.Context, c *rc.Conn, done, posted int64) error {
	for ; f.sent < done; f.sent++ {
		if _, err := f.at(f.sent).WaitSend(ctx, c, fmt.Sprintf("the completion of chunk %d", f.sent)); err != nil {
			return err
		}
	}
	for f.credited < done {
		say := f.at(f.credited)
		wc, err := say.WaitRecv(ctx, c, fmt.Sprintf("the server to return the slot of chunk %d", f.credited))
		if err != nil {
			return err
		}
		fresh := int64(wc.Imm() - uint32(f.credited)) // the immediate counts modulo 2³²
		if wc.Opcode != verbs.WCRecv || wc.Flags&verbs.WCWithImm == 0 || fresh < 1 || f.credited+fresh > posted {
			return errors.Errorf("the completion is %v with the immediate %d, expected a credit from %d to %d; try: a server of this program's version",
				wc.Opcode, wc.Imm(), f.credited+1, posted)
		}
		f.credited += fresh
		f.past.store(min(f.credited, f.Chunks()))
		if err := say.PostRecv(c.QP(), verbs.RecvWR{ID: wc.ID + uint64(f.slots)}); err != nil {
			return err
		}
	}
	return nil
}

// load copies message n to its slot.
func (f *client) load(n int64) error {
	if n == f.Chunks() {
		if err := f.source.unchanged(); err != nil {
			return err
		}
		f.digest.Sum(f.slot(n)[:0])
		f.past.complete(f.digest)
		return nil
	}
	if err := f.source.fill(f.slot(n)); err != nil {
		return err
	}
	f.digest.Write(f.slot(n))
	f.past.mark(n, f.digest)
	return nil
}
