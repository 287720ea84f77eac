// Going on after a lost connection.
//
// A client with --retry gives its file a random key, which only it knows, and says in each hello how many
// chunks of it are stored, as far as the credits say, with the SHA-256 of their bytes. The server writes
// to a partial file of that key. When the client comes back, the server hashes the beginning of the
// partial file. The server's first credit is the number of chunks with which it begins:
//
//   - what the client offered, if the SHA-256 is the same. What follows in the partial file is dropped.
//   - all, if the file was given its name, also if somebody has moved or removed it since. The client then
//     sends only its last message.
//   - 0 otherwise.
//
// The last message has the SHA-256 of the whole file in all cases. A client sends only the file that it
// began with: same inode, size and times.

package file

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/cmd/internal/job/file/folder"
	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/cmd/internal/usage"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// With kit.ParamFileKey, the parameters of a client that may go on.
const (
	paramStored = "file_stored" // chunks that are stored
	paramPrefix = "file_prefix" // SHA-256 of their bytes
)

// immReading is the immediate of a message that says: the server still reads the partial file.
const immReading = math.MaxUint32

// readingEvery is the time between two such messages.
const readingEvery = time.Second

// barrierStored is where both ends meet when the server has the file. After it the server forgets the key.
const barrierStored = "file stored"

// past is what the attempts of one client know. A nil one is that of a client with one attempt.
type past struct {
	key    string
	began  *unix.Stat_t // of the file; nil before the first attempt
	chunks int64        // stored, as far as the credits say
	digest hash.Hash    // of their bytes
	whole  hash.Hash    // of the whole file; nil until it was read

	marks [fileSlots]hash.Hash // after each chunk whose slot was not given back
}

func newPast() *past { return &past{key: rand.Text(), digest: sha256.New()} }

// check refuses a file that is not the one of the first attempt, and chunks that an immediate cannot count.
func (p *past) check(s *source, chunk kit.Size) error {
	if p == nil {
		return nil
	}
	if s.size()/int64(chunk) >= immReading-1 {
		return usage.Errorf("--retry cannot count the chunks of so large a file; try: --chunk %v", 16*chunk)
	}
	if p.began == nil {
		p.began = &s.began
	}
	now := &s.began
	if now.Dev != p.began.Dev || now.Ino != p.began.Ino || now.Size != p.began.Size || now.Mtim != p.began.Mtim || now.Ctim != p.began.Ctim {
		return s.changed("it is not the file of the first attempt any more")
	}
	return nil
}

// ask adds the parameters of the client's offer.
func (p *past) ask(params kit.Params) {
	if p == nil {
		return
	}
	params[kit.ParamFileKey] = p.key
	params[paramStored] = strconv.FormatInt(p.chunks, 10)
	params[paramPrefix] = hex.EncodeToString(p.digest.Sum(nil))
}

// mark keeps the digest after message n, until its slot is given back.
func (p *past) mark(n int64, digest hash.Hash) {
	if p != nil {
		p.marks[n%fileSlots] = cloned(digest)
	}
}

// complete keeps the digest of the whole file.
func (p *past) complete(digest hash.Hash) {
	if p != nil {
		p.whole = cloned(digest)
	}
}

// store notes that the first n chunks are stored.
func (p *past) store(n int64) {
	if p != nil && n > p.chunks {
		p.chunks, p.digest = n, p.marks[(n-1)%fileSlots]
	}
}

// part meets the server when the file is stored.
func (p *past) part(ctx context.Context, c *rc.Conn) error {
	if p == nil {
		return nil
	}
	return c.TCP().Barrier(ctx, barrierStored)
}

func cloned(digest hash.Hash) hash.Hash {
	copied, err := digest.(hash.Cloner).Clone() //nolint:forcetypeassert // all hashes of the standard library are Cloners
	if err != nil {
		panic(err) // not of SHA-256
	}
	return copied.(hash.Hash) //nolint:forcetypeassert // Clone's documentation
}

// resume waits for the server's first credit and goes to the chunk that it names.
func (f *client) resume(ctx context.Context, c *rc.Conn) error {
	if f.past == nil {
		return nil
	}
	first, err := f.awaitFirst(ctx, c)
	if err != nil {
		return err
	}
	switch {
	case first == f.past.chunks:
		f.digest = cloned(f.past.digest)
	case first == f.Chunks() && f.past.whole != nil:
		f.digest = cloned(f.past.whole)
	case first == 0: // the server has lost the partial file
		f.past.chunks, f.past.digest = 0, sha256.New()
	default:
		return errors.Errorf("the server begins with chunk %d, but this end offered chunk %d; try: a server of this program's version", first, f.past.chunks)
	}
	f.sent, f.credited = first, first
	_, err = f.source.Seek(f.upTo(first), io.SeekStart)
	return err
}

// awaitFirst returns the number of chunks with which the server begins.
func (f *client) awaitFirst(ctx context.Context, c *rc.Conn) (int64, error) {
	for {
		wc, err := f.WaitRecv(ctx, c, "the server to look at its partial file")
		if err != nil {
			return 0, err
		}
		if wc.Opcode != verbs.WCRecv || wc.Flags&verbs.WCWithImm == 0 {
			return 0, errors.Errorf("the completion is %v, expected a credit; try: a server of this program's version", wc.Opcode)
		}
		if err := f.PostRecv(c.QP(), verbs.RecvWR{ID: wc.ID}); err != nil {
			return 0, err
		}
		if wc.Imm() != immReading {
			return int64(wc.Imm()), nil
		}
	}
}

// upTo returns the number of bytes of the first n chunks.
func (t *transfer) upTo(n int64) int64 { return min(n*int64(t.Chunk), t.Total) }

// offer is the offer of a client that may go on, at the server.
type offer struct {
	key     string
	chunks  int64
	prefix  string // SHA-256 of their bytes, in hexadecimal digits
	writers *writers
}

// readOffer returns the client's offer; nil if it makes none.
func readOffer(params kit.Params, t *transfer, w *writers) (*offer, error) {
	if params[kit.ParamFileKey] == "" {
		return nil, nil
	}
	if err := folder.CheckKey(params[kit.ParamFileKey]); err != nil {
		return nil, err
	}
	if t.Chunks() >= immReading {
		return nil, errors.Errorf("the file has %d chunks, too many to go on with; try: rdma_client --chunk %v", t.Chunks(), 16*kit.Size(t.Chunk))
	}
	chunks, err := params.Number(paramStored, 0, t.Chunks())
	return &offer{params[kit.ParamFileKey], chunks, params[paramPrefix], w}, err
}

// have returns the bytes of the partial file, and whether it has its name.
func (o *offer) have(inbox *folder.Folder, name string) (bytes int64, named bool) {
	if o == nil {
		return 0, false
	}
	return inbox.Have(o.key, name)
}

// goOn receives what the partial file of the client's key lacks. If the connection is lost, the partial
// file stays.
func (f *server) goOn(ctx context.Context, c *rc.Conn) (err error) {
	ctx, leave, err := f.offer.writers.enter(ctx, f.offer.key)
	if err != nil {
		return err
	}
	defer leave()
	file, err := f.inbox.Partial(f.offer.key, f.name)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && mayComeBack(ctx, err) {
			file.Keep()
		}
		kit.CloseAll(&err, file)
	}()
	digest, err := f.findFirst(ctx, c, file)
	if err != nil {
		return err
	}
	if err := f.credit(ctx, c, uint32(f.first)); err != nil {
		return err
	}
	if err := f.receive(ctx, c, file, digest); err != nil {
		return err
	}
	return c.TCP().Barrier(ctx, barrierStored)
}

// mayComeBack reports whether the client of a connection that ended with err may come back.
func mayComeBack(ctx context.Context, err error) bool {
	stopped := errors.Is(context.Cause(ctx), context.Canceled) // this server, which may start again
	return stopped || errors.Is(err, errTakenOver) || kit.Lost(err) && !kit.PeerStopped(err)
}

// findFirst sets f.first, and drops what the partial file has after that. It returns the digest of what
// is before.
func (f *server) findFirst(ctx context.Context, c *rc.Conn, file *folder.File) (hash.Hash, error) {
	have, named := f.inbox.Have(f.offer.key, f.name)
	if named && have != f.Total {
		return nil, errors.Errorf("the file %q is complete with %d bytes, but the client now has %d; try: another name", f.name, have, f.Total)
	}
	first := f.offer.chunks
	if named {
		first = f.Chunks()
	}
	digest := sha256.New()
	if first > 0 && have >= f.upTo(first) {
		if err := f.read(ctx, c, digest, file.Prefix(f.upTo(first))); err != nil {
			return nil, err
		}
		if named || hex.EncodeToString(digest.Sum(nil)) == f.offer.prefix {
			f.first = first
		} else {
			digest.Reset()
		}
	}
	if named {
		return digest, nil
	}
	return digest, file.Resume(f.upTo(f.first))
}

// read writes the partial file to digest. Meanwhile it tells the client that it does.
func (f *server) read(ctx context.Context, c *rc.Conn, digest hash.Hash, from io.Reader) error {
	for said := time.Now(); ; {
		_, err := io.CopyN(digest, from, 1<<20)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read the partial file: %w; try: dmesg, for errors of the disk", err)
		}
		kit.Progress(ctx)
		if time.Since(said) > readingEvery {
			said = time.Now()
			if err := f.credit(ctx, c, immReading); err != nil {
				return err
			}
		}
	}
}

// credit sends a message without a slot, before the first chunk.
func (f *server) credit(ctx context.Context, c *rc.Conn, imm uint32) error {
	if err := f.PostSend(c.QP(), verbs.SendWR{Opcode: verbs.OpSendWithImm, Flags: verbs.SendSignaled, Imm: imm}); err != nil {
		return err
	}
	_, err := f.WaitSend(ctx, c, "the completion of the first credit")
	return err
}

// writers are the connections that write to partial files, by key.
type writers struct {
	mu sync.Mutex
	of map[string]*writer
}

type writer struct {
	end  context.CancelCauseFunc
	gone chan struct{} // closed when it has ended
}

var errTakenOver = errors.New("the client has connected again to go on with this file")

// enter ends the connection that has the key, which this end still believes alive, and waits for its
// end. The returned context ends when another connection takes the key.
func (w *writers) enter(ctx context.Context, key string) (context.Context, func(), error) {
	for {
		w.mu.Lock()
		old := w.of[key]
		if old == nil {
			break
		}
		w.mu.Unlock()
		old.end(errTakenOver)
		select {
		case <-old.gone:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
	defer w.mu.Unlock()
	ctx, end := context.WithCancelCause(ctx)
	me := &writer{end, make(chan struct{})}
	if w.of == nil {
		w.of = map[string]*writer{}
	}
	w.of[key] = me
	return ctx, func() {
		w.mu.Lock()
		delete(w.of, key)
		w.mu.Unlock()
		close(me.gone)
		end(nil)
	}, nil
}
