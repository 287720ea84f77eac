// The job "file": the client sends a file by WRITE_WITH_IMM, a chunk at a time,
// into a ring of slots in the server's memory. A slot is written to again only
// once the server has its chunk in a file and has given the slot back, a credit,
// by SEND_WITH_IMM: so a file of any size goes through little memory, and a slow
// disk slows the client down instead of losing data.
//
//	client                                              server
//	  WRITE_WITH_IMM chunk 0 into slot 0, imm 0  ──────▶  RECV: byte_len says how long
//	  …                                                   write it to the file
//	  ◀──────  SEND_WITH_IMM: imm 1, of 1 chunk I have disposed
//	  …
//	  WRITE_WITH_IMM of the SHA-256, imm = chunks  ─────▶  compare, give the file its name
//	  ◀──────  SEND_WITH_IMM: imm = chunks + 1, it is done
//
// So the SHA-256 is but the last message, and the last credit says that the file
// is whole, on the disk and has its name.

package lab

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

	"github.com/rawverbs/rawverbs/internal/folder"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

var fileJob = job{
	name:   "file",
	about:  "send a file in chunks by WRITE_WITH_IMM, with flow control; compare SHA-256",
	flags:  []string{"file", "name", "chunk"},
	needs:  []string{"file"},
	client: newFileClient,
	server: newFileServer,
}

// What the client tells the server of its file.
const (
	paramFileName = "file_name"
	paramFileSize = "file_size" // bytes
)

// fileSlots is how many slots a ring has at most.
const fileSlots = 16

// transfer is what both ends know of a file that is on its way. Its messages are
// numbered: first the chunks, then the SHA-256.
type transfer struct {
	narrator
	chunked
	name  string
	slots int
	ring  *verbs.MR
	port  uint8
}

// layOut divides a ring of at most most bytes.
func (t *transfer) layOut(most Size) error {
	if Size(t.chunk) > most {
		return fmt.Errorf("the client's chunks have %v bytes, and the server gives at most %v; try: rdma_client --chunk %v, or rdma_server --max-size", Size(t.chunk), most, most)
	}
	t.slots = int(min(fileSlots, int64(most)/int64(t.chunk), t.messages()))
	return nil
}

// makeRing registers the slots, if the device can carry a chunk in one message.
func (t *transfer) makeRing(c *rc.Conn, name string, access verbs.Access) (err error) {
	if err := t.carried(c.Device(), t.port); err != nil {
		return err
	}
	t.ring, err = c.AllocMR(name, t.slots*t.chunk, access)
	return err
}

func (t *transfer) messages() int64 { return t.chunks() + 1 }

// length is how many bytes message n has.
func (t *transfer) length(n int64) int {
	if n == t.chunks() {
		return sha256.Size
	}
	return t.chunked.length(n)
}

// offset is where in the ring message n's slot begins.
func (t *transfer) offset(n int64) int { return int(n%int64(t.slots)) * t.chunk }

// slot is message n in the ring.
func (t *transfer) slot(n int64) []byte { return t.ring.Bytes()[t.offset(n):][:t.length(n)] }

// at is how message n is told: the first two chunks and the SHA-256 to all, the
// many between with -v.
func (t *transfer) at(n int64) narrator {
	if n < 2 || n >= t.chunks() {
		return t.narrator
	}
	return t.quieter()
}

// postRecvs posts a receive for each slot: at the server for the chunk, at the client
// for the credit. They have no memory, since the chunks have their places, and a
// credit is but its immediate.
func (t *transfer) postRecvs(c *rc.Conn) error {
	for n := range t.slots {
		if err := t.at(int64(n)).postRecv(c.QP(), verbs.RecvWR{ID: uint64(n)}); err != nil {
			return err
		}
	}
	return nil
}

// told are the attributes that tell of the transfer.
func (t *transfer) told(more ...slog.Attr) []slog.Attr {
	return append([]slog.Attr{slog.String("name", t.name), slog.Int64("bytes", t.total)}, more...)
}

// fileClient is the client's half.
type fileClient struct {
	transfer
	source *source
	digest hash.Hash // of what was read
	bar    io.Writer // for the progress; nil is none

	sent     int64         // messages that the server's device has acknowledged
	credited int64         // messages whose slots are free again
	waited   time.Duration // for free slots
}

func newFileClient(o ClientOptions) (half, error) {
	if o.Chunk < sha256.Size || o.Chunk > math.MaxInt32 {
		return nil, Usagef("chunks of %v bytes cannot be had; try: --chunk 64K, at least %d", o.Chunk, sha256.Size)
	}
	s, err := openSource(o.File)
	if err != nil {
		return nil, err
	}
	name := o.Name
	if name == "" {
		name = filepath.Base(o.File)
	}
	if err := folder.CheckName(name); err != nil {
		closeAll(&err, s)
		return nil, Usagef("%w (rdma_client --name)", err)
	}
	return &fileClient{
		transfer: transfer{narrator: narrator{o.Logger}, chunked: chunked{s.size(), int(o.Chunk)}, name: name, port: o.IBPort},
		source:   s, digest: sha256.New(), bar: o.Progress,
	}, nil
}

// Close closes the file.
func (f *fileClient) Close() error { return f.source.Close() }

func (f *fileClient) configure(cfg *rc.Config) {
	cfg.Params[paramFileName] = f.name
	cfg.Params[paramFileSize] = strconv.FormatInt(f.total, 10)
	cfg.Params[paramChunk] = strconv.Itoa(f.chunk)
	cfg.Cap.MaxSendWR, cfg.Cap.MaxRecvWR = fileSlots, fileSlots
}

// prepare makes a ring like the server's to send from.
func (f *fileClient) prepare(c *rc.Conn) error {
	most, err := params(c.PeerHello().Params).most()
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

func (f *fileClient) run(ctx context.Context, c *rc.Conn) error {
	remote, err := peerRegion(c, f.slots*f.chunk)
	if err != nil {
		return err
	}
	tell(f.log, "data", "file.begun", "", "send the file "+f.source.path+"; -v tells of every chunk", f.told(slog.Int64("chunks", f.chunks()), slog.Int("chunk", f.chunk), slog.Int("slots", f.slots))...)
	began := time.Now()
	if err := f.sendAll(ctx, c, remote); err != nil {
		return err
	}
	tell(f.log, "data", "file.sent", "", "SUCCESS, the server has the file, and its SHA-256 is the same",
		f.told(slog.String("sha256", hex.EncodeToString(f.digest.Sum(nil))), slog.Duration("took", time.Since(began)), slog.Duration("waited_for_slots", f.waited))...)
	return nil
}

// sendAll sends all messages, and returns when the server has disposed of the last.
func (f *fileClient) sendAll(ctx context.Context, c *rc.Conn, remote oob.Region) error {
	move := progressBar(f.bar, f.total)
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
		if err := f.at(n).postSend(c.QP(), write); err != nil {
			return err
		}
		move(f.credited * int64(f.chunk))
	}
	return f.awaitCredits(ctx, c, f.messages(), f.messages())
}

// awaitSlot returns once message n's slot is free at both ends.
func (f *fileClient) awaitSlot(ctx context.Context, c *rc.Conn, n int64) error {
	began := time.Now()
	err := f.awaitCredits(ctx, c, n-int64(f.slots)+1, n)
	f.waited += time.Since(began)
	return err
}

// awaitCredits returns once the first done of the messages, of which posted are
// posted, have gone and their slots were given back. That a message has gone is
// waited for as well, though a credit says that it came: until its acknowledgement
// is here it may be sent again, and so its memory must stay. And if the connection
// breaks, this completion is the one that says why.
func (f *fileClient) awaitCredits(ctx context.Context, c *rc.Conn, done, posted int64) error {
	for ; f.sent < done; f.sent++ {
		if _, err := f.at(f.sent).waitSend(ctx, c, fmt.Sprintf("the completion of chunk %d", f.sent)); err != nil {
			return err
		}
	}
	for f.credited < done {
		say := f.at(f.credited)
		wc, err := say.waitRecv(ctx, c, fmt.Sprintf("the server to give back the slot of chunk %d", f.credited))
		if err != nil {
			return err
		}
		fresh := int64(wc.Imm() - uint32(f.credited)) // the immediate counts modulo 2³²
		if wc.Opcode != verbs.WCRecv || wc.Flags&verbs.WCWithImm == 0 || fresh < 1 || f.credited+fresh > posted {
			return fmt.Errorf("the completion is %v with the immediate %d, and a credit from %d to %d was to come; try: a server of this program's version",
				wc.Opcode, wc.Imm(), f.credited+1, posted)
		}
		f.credited += fresh
		if err := say.postRecv(c.QP(), verbs.RecvWR{ID: wc.ID + uint64(f.slots)}); err != nil {
			return err
		}
	}
	return nil
}

// load puts message n into its slot.
func (f *fileClient) load(n int64) error {
	if n == f.chunks() {
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

// fileServer is the server's half.
type fileServer struct {
	transfer
	inbox  *folder.Folder
	copied [64 << 10]byte // of a slot
}

// newFileServer refuses what the server would not keep in the end, before any of
// it comes.
func newFileServer(v visit) (half, error) {
	if v.inbox == nil {
		return nil, fmt.Errorf("this server takes no files; try: rdma_server --dir FOLDER")
	}
	size, err := v.params.number(paramFileSize, 0, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	chunk, err := v.params.number(paramChunk, sha256.Size, math.MaxInt32)
	if err != nil {
		return nil, err
	}
	if Size(size) > v.MaxFile {
		return nil, fmt.Errorf("the file has %v bytes, and the server takes at most %v; try: a smaller one, or rdma_server --max-file", Size(size), v.MaxFile)
	}
	f := &fileServer{
		transfer: transfer{narrator: narrator{v.Logger}, chunked: chunked{size, int(chunk)}, name: v.params[paramFileName], port: v.IBPort},
		inbox:    v.inbox,
	}
	if err := f.inbox.Admit(f.name, size); err != nil {
		return nil, err
	}
	return f, f.layOut(v.MaxSize)
}

func (*fileServer) configure(cfg *rc.Config) {
	cfg.Cap.MaxSendWR, cfg.Cap.MaxRecvWR = fileSlots, fileSlots
}

// prepare offers the ring.
func (f *fileServer) prepare(c *rc.Conn) error {
	if err := f.makeRing(c, "for the client", verbs.AccessLocalWrite|verbs.AccessRemoteWrite); err != nil {
		return err
	}
	c.Share(regionName, f.ring)
	return f.postRecvs(c)
}

// run takes the file in. However it ends, nothing is left of a file that is not
// whole.
func (f *fileServer) run(ctx context.Context, c *rc.Conn) (err error) {
	file, err := f.inbox.Create()
	if err != nil {
		return err
	}
	defer closeAll(&err, file)
	tell(f.log, "data", "file.begun", "", "receive a file; -v tells of every chunk", f.told(slog.Int64("chunks", f.chunks()), slog.Int("chunk", f.chunk), slog.Int("slots", f.slots))...)
	digest := sha256.New()
	for n := range f.messages() {
		if err := f.await(ctx, c, n); err != nil {
			return err
		}
		if n < f.chunks() {
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
		if _, err := f.at(n).waitSend(ctx, c, "the completion of a credit"); err != nil {
			return err
		}
	}
	return nil
}

// await returns once message n is in its slot.
func (f *fileServer) await(ctx context.Context, c *rc.Conn, n int64) error {
	wc, err := f.at(n).waitRecv(ctx, c, fmt.Sprintf("chunk %d", n))
	if err != nil {
		return err
	}
	if wc.Opcode != verbs.WCRecvRDMAWithImm || wc.Imm() != uint32(n) || int(wc.ByteLen) != f.length(n) {
		return fmt.Errorf("the completion is %v of %d bytes with the immediate %d, and a WRITE_WITH_IMM of %d bytes with the immediate %d was to come; try: a client of this program's version",
			wc.Opcode, wc.ByteLen, wc.Imm(), f.length(n), uint32(n))
	}
	return nil
}

// keep writes a slot to each of to, which all get the same: the client can write to
// the slot at any time, so that it is read but once.
func (f *fileServer) keep(slot []byte, to ...io.Writer) error {
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

// finish gives the file its name, if it is what the client read.
func (f *fileServer) finish(file *folder.File, digest hash.Hash) error {
	theirs, mine := bytes.Clone(f.slot(f.chunks())), digest.Sum(nil)
	if !bytes.Equal(mine, theirs) {
		return fmt.Errorf("the file came with the SHA-256 %x, and the client says that it has %x; try: again, and dmesg for errors of the device", mine, theirs)
	}
	if err := file.Commit(f.name); err != nil {
		return err
	}
	tell(f.log, "data", "file.stored", "", "the file is whole, on the disk, and has its name", f.told(slog.String("sha256", hex.EncodeToString(mine)))...)
	return nil
}

// giveBack gives the client the slot of message n: a receive for the message that
// will come to it, then the credit. The credit tells how many were disposed of in
// all, so that nothing depends on counting credits.
func (f *fileServer) giveBack(ctx context.Context, c *rc.Conn, n int64) error {
	say := f.at(n)
	if n >= int64(f.slots) { // the send queue has a place for each slot's credit
		if _, err := say.waitSend(ctx, c, "the completion of a credit"); err != nil {
			return err
		}
	}
	if err := say.postRecv(c.QP(), verbs.RecvWR{ID: uint64(n) + uint64(f.slots)}); err != nil {
		return err
	}
	return say.postSend(c.QP(), verbs.SendWR{ID: uint64(n), Opcode: verbs.OpSendWithImm, Flags: verbs.SendSignaled, Imm: uint32(n + 1)})
}
