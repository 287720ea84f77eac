// The server's side: a ring of slots, and a file in a folder.

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

	"github.com/pkg/errors"
	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/cmd/internal/job/file/folder"
	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/cmd/internal/usage"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// server is the server's endpoint.
type server struct {
	transfer
	inbox  *folder.Folder
	first  int64          // the first message of this connection
	offer  *offer         // of a client that may go on; nil without one
	copied [64 << 10]byte // copy of a part of a slot
}

// DefaultLargest is the size of the largest file that a client may send without --max-file.
const DefaultLargest kit.Size = 16 << 30

// serverSide is the folder for the files of all clients.
type serverSide struct {
	dir     string
	largest kit.Size
	most    kit.Size       // of all files in dir; 0 is folder.Open's choice
	inbox   *folder.Folder // nil if the server takes no files
	writers writers        // of partial files
}

func newServerSide(f *pflag.FlagSet) kit.Side {
	side := &serverSide{largest: DefaultLargest}
	f.StringVar(&side.dir, "dir", "", "folder for the files of the job file (default: the server accepts no files)")
	f.Var(&side.largest, "max-file", "largest file that a client may send, such as 1G")
	f.Var(&side.most, "max-dir", "bytes of all files in --dir, such as 100G (default: what it has at the start, and half of the free space)")
	return side
}

// Open opens the folder.
func (side *serverSide) Open() (err error) {
	if side.largest < 0 {
		return usage.Errorf("a largest file of %d bytes is not possible; try: --max-file %v", int64(side.largest), DefaultLargest)
	}
	if side.dir == "" {
		return nil
	}
	if side.inbox, err = folder.Open(side.dir, int64(side.most)); err != nil {
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
func (side *serverSide) NewEndpoint(s kit.Session) (kit.Endpoint, error) {
	if side.inbox == nil {
		return nil, errors.New("this server accepts no files; try: rdma_server --dir FOLDER")
	}
	size, err := s.Params.Number(paramFileSize, 0, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	chunk, err := s.Params.Number(kit.ParamChunk, sha256.Size, math.MaxInt32)
	if err != nil {
		return nil, err
	}
	if kit.Size(size) > side.largest {
		return nil, errors.Errorf("the file has %v bytes, but the server takes at most %v; try: a smaller one, or rdma_server --max-file", kit.Size(size), side.largest)
	}
	e := &server{
		transfer: transfer{Tracer: kit.Tracer{Logger: s.Logger}, Chunked: kit.Chunked{Total: size, Chunk: int(chunk)}, name: s.Params[paramFileName], port: s.Port},
		inbox:    side.inbox,
	}
	if e.offer, err = readOffer(s.Params, &e.transfer, &side.writers); err != nil {
		return nil, err
	}
	if have, named := e.offer.have(e.inbox, e.name); !named {
		if err := e.inbox.Admit(e.name, max(0, size-have)); err != nil {
			return nil, err
		}
	}
	return e, e.layOut(s.MaxSize)
}

func (*server) Configure(cfg *rc.Config) {
	cfg.Access = verbs.AccessRemoteWrite
	cfg.Cap.MaxSendWR, cfg.Cap.MaxRecvWR = fileSlots, fileSlots
}

// Memory returns the bytes of the ring, and of the copy of a part.
func (f *server) Memory() int64 { return int64(f.slots)*int64(f.Chunk) + int64(len(f.copied)) }

// Prepare shares the ring.
func (f *server) Prepare(c *rc.Conn) error {
	if err := f.makeRing(c, "for the client", verbs.AccessLocalWrite|verbs.AccessRemoteWrite); err != nil {
		return err
	}
	c.Share(kit.RegionName, f.ring)
	return f.postRecvs(c)
}

// Run receives the file. If it fails, it leaves nothing of an incomplete file, unless the client may go
// on with it.
func (f *server) Run(ctx context.Context, c *rc.Conn) (err error) {
	if f.offer != nil {
		return f.goOn(ctx, c)
	}
	file, err := f.inbox.Create()
	if err != nil {
		return err
	}
	defer kit.CloseAll(&err, file)
	return f.receive(ctx, c, file, sha256.New())
}

// receive receives the messages from f.first on. file and digest have the bytes before them.
func (f *server) receive(ctx context.Context, c *rc.Conn, file *folder.File, digest hash.Hash) error {
	event.FileBegun.Log(f.Logger, "receive a file; -vv shows every chunk", f.begun(f.offer != nil, f.first)...)
	for n := f.first; n < f.messages(); n++ {
		err := f.await(ctx, c, n)
		if err != nil {
			return err
		}
		if n < f.Chunks() {
			err = f.keep(f.slot(n), digest, file)
			kit.Moved(ctx, int64(f.length(n)))
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
	for n := max(f.first, f.messages()-int64(f.slots)); n < f.messages(); n++ {
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
	if n-f.first >= int64(f.slots) { // the send queue has room for one credit per slot
		if _, err := say.WaitSend(ctx, c, "the completion of a credit"); err != nil {
			return err
		}
	}
	if err := say.PostRecv(c.QP(), verbs.RecvWR{ID: uint64(n) + uint64(f.slots)}); err != nil {
		return err
	}
	return say.PostSend(c.QP(), verbs.SendWR{ID: uint64(n), Opcode: verbs.OpSendWithImm, Flags: verbs.SendSignaled, Imm: uint32(n + 1)})
}
