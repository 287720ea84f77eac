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
// disk, and has its name.
package file

import (
	"bytes"
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

	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/internal/folder"
	"github.com/rawverbs/rawverbs/internal/job"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// Jobs is the job, for the list in package run.
var Jobs = job.List{{
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
	job.Tracer
	job.Chunked
	name  string
	slots int
	ring  *verbs.MR
	port  uint8
}

// layOut chooses the slots of a ring of at most most bytes.
func (t *transfer) layOut(most job.Size) error {
	if job.Size(t.Chunk) > most {
		return errors.Errorf("the client's chunks have %v bytes, but the server gives at most %v; try: rdma_client --chunk %v, or rdma_server --max-size", job.Size(t.Chunk), most, most)
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
func (t *transfer) at(n int64) job.Tracer {
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

// client is the client's endpoint.
type client struct {
	transfer
	source *source
	digest hash.Hash // of the bytes read
	bar    io.Writer // for the progress; nil for none

	sent     int64         // messages that the server's device has acknowledged
	credited int64         // messages whose slots are free again
	waited   time.Duration // time spent waiting for free slots
}

func newClientSide(f *pflag.FlagSet) job.Side {
	path := f.StringP("file", "f", "", "the file to send")
	name := f.String("name", "", "the file's name at the server (default: the last part of its path)")
	chunk := job.Size(64 << 10)
	f.Var(&chunk, "chunk", "bytes of each request, such as 4096, 64K, 1M")
	return job.SideFunc(func(s job.Session) (job.Endpoint, error) {
		if !f.Changed("file") {
			return nil, job.Usagef("the job file needs --file: the file to send")
		}
		return newClient(s, *path, *name, chunk)
	})
}

func newClient(session job.Session, path, name string, chunk job.Size) (job.Endpoint, error) {
	if chunk < sha256.Size || chunk > math.MaxInt32 {
		return nil, job.Usagef("chunks of %v bytes are not possible; try: --chunk 64K, at least %d", chunk, sha256.Size)
	}
	s, err := openSource(path)
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = filepath.Base(path)
	}
	if err := folder.CheckName(name); err != nil {
		job.CloseAll(&err, s)
		return nil, job.Usagef("%w (rdma_client --name)", err)
	}
	return &client{
		transfer: transfer{Tracer: job.Tracer{Logger: session.Logger}, Chunked: job.Chunked{Total: s.size(), Chunk: int(chunk)}, name: name, port: session.Port},
		source:   s, digest: sha256.New(), bar: session.Progress,
	}, nil
}

// Close closes the file.
func (f *client) Close() error { return f.source.Close() }

func (f *client) Configure(cfg *rc.Config) {
	cfg.Params[paramFileName] = f.name
	cfg.Params[paramFileSize] = strconv.FormatInt(f.Total, 10)
	cfg.Params[job.ParamChunk] = strconv.Itoa(f.Chunk)
	cfg.Cap.MaxSendWR, cfg.Cap.MaxRecvWR = fileSlots, fileSlots
}

// Prepare makes a ring like the server's, to send from.
func (f *client) Prepare(c *rc.Conn) error {
	most, err := job.Params(c.PeerHello().Params).MaxSize()
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
	remote, err := job.PeerRegion(c, f.slots*f.Chunk)
	if err != nil {
		return err
	}
	event.FileBegun.Log(f.Logger, "send the file "+f.source.path+"; -vv shows every chunk", f.attrs(slog.Int64("chunks", f.Chunks()), slog.Int("chunk", f.Chunk), slog.Int("slots", f.slots))...)
	began := time.Now()
	if err := f.sendAll(ctx, c, remote); err != nil {
		return err
	}
	event.FileSent.Log(f.Logger, "SUCCESS, the server has the file, and its SHA-256 is the same",
		f.attrs(slog.String("sha256", hex.EncodeToString(f.digest.Sum(nil))), slog.Duration("took", time.Since(began)), slog.Duration("waited_for_slots", f.waited))...)
	return nil
}

// sendAll sends all messages, and returns when the server has given back the last slot.
func (f *client) sendAll(ctx context.Context, c *rc.Conn, remote oob.Region) error {
	move := job.ProgressBar(f.bar, f.Total)
	defer move(-1)
	for n := range f.messages() {
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
		return nil
	}
	if err := f.source.fill(f.slot(n)); err != nil {
		return err
	}
	f.digest.Write(f.slot(n))
	return nil
}

// server is the server's endpoint.
type server struct {
	transfer
	inbox  *folder.Folder
	copied [64 << 10]byte // copy of a part of a slot
}

// DefaultLargest is the size of the largest file that a client may send without --max-file.
const DefaultLargest job.Size = 16 << 30

// serverSide is the folder for the files of all clients.
type serverSide struct {
	dir     string
	largest job.Size
	inbox   *folder.Folder // nil if the server takes no files
}

func newServerSide(f *pflag.FlagSet) job.Side {
	side := &serverSide{largest: DefaultLargest}
	f.StringVar(&side.dir, "dir", "", "folder for the files of the job file (default: the server accepts no files)")
	f.Var(&side.largest, "max-file", "largest file that a client may send, such as 1G")
	return side
}

// Open opens the folder.
func (side *serverSide) Open() (err error) {
	if side.largest < 0 {
		return job.Usagef("a largest file of %d bytes is not possible; try: --max-file %v", int64(side.largest), DefaultLargest)
	}
	if side.dir == "" {
		return nil
	}
	if side.inbox, err = folder.Open(side.dir); err != nil {
		return errors.WithMessage(err, "--dir")
	}
	return nil
}

// Close closes the folder.
func (side *serverSide) Close() error {
	if side.inbox == nil {
		return nil
	}
	return side.inbox.Close()
}

// NewEndpoint refuses a file that the server would not keep, before any of it is sent.
func (side *serverSide) NewEndpoint(s job.Session) (job.Endpoint, error) {
	if side.inbox == nil {
		return nil, errors.New("this server accepts no files; try: rdma_server --dir FOLDER")
	}
	size, err := s.Params.Number(paramFileSize, 0, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	chunk, err := s.Params.Number(job.ParamChunk, sha256.Size, math.MaxInt32)
	if err != nil {
		return nil, err
	}
	if job.Size(size) > side.largest {
		return nil, errors.Errorf("the file has %v bytes, but the server takes at most %v; try: a smaller one, or rdma_server --max-file", job.Size(size), side.largest)
	}
	e := &server{
		transfer: transfer{Tracer: job.Tracer{Logger: s.Logger}, Chunked: job.Chunked{Total: size, Chunk: int(chunk)}, name: s.Params[paramFileName], port: s.Port},
		inbox:    side.inbox,
	}
	if err := e.inbox.Admit(e.name, size); err != nil {
		return nil, err
	}
	return e, e.layOut(s.MaxSize)
}

func (*server) Configure(cfg *rc.Config) {
	cfg.Access = verbs.AccessRemoteWrite
	cfg.Cap.MaxSendWR, cfg.Cap.MaxRecvWR = fileSlots, fileSlots
}

// Prepare shares the ring.
func (f *server) Prepare(c *rc.Conn) error {
	if err := f.makeRing(c, "for the client", verbs.AccessLocalWrite|verbs.AccessRemoteWrite); err != nil {
		return err
	}
	c.Share(job.RegionName, f.ring)
	return f.postRecvs(c)
}

// Run receives the file. If it fails, it leaves nothing of an incomplete file.
func (f *server) Run(ctx context.Context, c *rc.Conn) (err error) {
	file, err := f.inbox.Create()
	if err != nil {
		return err
	}
	defer job.CloseAll(&err, file)
	event.FileBegun.Log(f.Logger, "receive a file; -vv shows every chunk", f.attrs(slog.Int64("chunks", f.Chunks()), slog.Int("chunk", f.Chunk), slog.Int("slots", f.slots))...)
	digest := sha256.New()
	for n := range f.messages() {
		if err := f.await(ctx, c, n); err != nil {
			return err
		}
		if n < f.Chunks() {
			err = f.keep(f.slot(n), digest, file)
		} else {
			err = f.finish(file, digest)
		}
		if err != nil {
			return err
		}
		if err := f.giveBack(ctx, c, n); err != nil {
			return err
		}
	}
	for n := max(0, f.messages()-int64(f.slots)); n < f.messages(); n++ {
		if _, err := f.at(n).WaitSend(ctx, c, "the completion of a credit"); err != nil {
			return err
		}
	}
	return nil
}

// await returns when message n is in its slot.
func (f *server) await(ctx context.Context, c *rc.Conn, n int64) error {
	wc, err := f.at(n).WaitRecv(ctx, c, fmt.Sprintf("chunk %d", n))
	if err != nil {
		return err
	}
	if wc.Opcode != verbs.WCRecvRDMAWithImm || wc.Imm() != uint32(n) || int(wc.ByteLen) != f.length(n) {
		return errors.Errorf("the completion is %v of %d bytes with the immediate %d, expected a WRITE_WITH_IMM of %d bytes with the immediate %d; try: a client of this program's version",
			wc.Opcode, wc.ByteLen, wc.Imm(), f.length(n), uint32(n))
	}
	return nil
}

// keep writes a slot to all writers. It reads the slot only once, because the client can write
// to it at any time, and all writers must get the same bytes.
func (f *server) keep(slot []byte, to ...io.Writer) error {
	for len(slot) > 0 {
		n := copy(f.copied[:], slot)
		slot = slot[n:]
		for _, w := range to {
			if _, err := w.Write(f.copied[:n]); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish gives the file its name if its SHA-256 is the client's.
func (f *server) finish(file *folder.File, digest hash.Hash) error {
	theirs, mine := bytes.Clone(f.slot(f.Chunks())), digest.Sum(nil)
	if !bytes.Equal(mine, theirs) {
		return errors.Errorf("the received file has the SHA-256 %x, but the client reports %x; try again, and look at dmesg for errors of the device", mine, theirs)
	}
	if err := file.Commit(f.name); err != nil {
		return err
	}
	event.FileStored.Log(f.Logger, "the file is complete, on the disk, and has its name", f.attrs(slog.String("sha256", hex.EncodeToString(mine)))...)
	return nil
}

// giveBack gives the slot of message n back to the client. It posts the receive for the next
// message in that slot, and then sends the credit. The immediate of the credit is the total
// number of stored messages, so the ends need not count credits.
func (f *server) giveBack(ctx context.Context, c *rc.Conn, n int64) error {
	say := f.at(n)
	if n >= int64(f.slots) { // the send queue has room for one credit per slot
		if _, err := say.WaitSend(ctx, c, "the completion of a credit"); err != nil {
			return err
		}
	}
	if err := say.PostRecv(c.QP(), verbs.RecvWR{ID: uint64(n) + uint64(f.slots)}); err != nil {
		return err
	}
	return say.PostSend(c.QP(), verbs.SendWR{ID: uint64(n), Opcode: verbs.OpSendWithImm, Flags: verbs.SendSignaled, Imm: uint32(n + 1)})
}
