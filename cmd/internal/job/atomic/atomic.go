// Package atomic is the job "atomic": any number of clients add to one counter in the server's
// memory at the same time. No add is lost, because the server's device reads, changes and
// writes the 8 bytes as one step.
//
// Clients that give the same name share a counter. Each of them can make its sum wrong, and the server
// cannot see which one did. So a client that gives no name has a counter of its own.
//
// FETCH_ADD adds, and returns the old value. CMP_SWP replaces the expected value by a new one.
// If the counter has another value, CMP_SWP changes nothing and returns that value: the client
// has lost a race and tries again with the returned value.
//
// The device's IBV_ATOMIC_* value says which accesses its atomics exclude. rxe and soft0 have
// IBV_ATOMIC_HCA: their atomics exclude those of all queue pairs of the same device, in any
// protection domain. (rxe takes one lock for all its atomics; soft0 uses the processor's atomic
// instructions.) Only IBV_ATOMIC_GLOB also covers several devices and the processor. So the
// server uses one device. It registers the counter once for each client, in the client's
// protection domain, and never writes to the counter while there are clients. ledger.go checks
// the sum, also after a client has died.
package atomic

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/cmd/internal/usage"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// Jobs is the job, for the list in package run.
var Jobs = kit.List{{
	Name:   "atomic",
	About:  "FETCH_ADD and CMP_SWP on a counter, which clients can share",
	Client: newClientSide,
	Server: func(*pflag.FlagSet) kit.Side { return &ledgers{} },
}}

const (
	opFetchAdd = "fetch-add"
	opCmpSwap  = "cmp-swap"
	opBoth     = "both"

	paramCount = "count"   // of the client: number of its operations
	paramAdd   = "add"     // of the client: what each operation adds
	paramName  = "counter" // of the client: the name of the counter; absent for one of its own
	maxName    = 64
	maxCount   = 1 << 20
	maxAdd     = 1<<32 - 1

	counterName  = "counter"
	counterBytes = 8

	noteMoving  = "moving"  // from the client: it is still at work
	noteAdded   = "added"   // from the client: the sum of its adds, in decimal digits
	noteVerdict = "verdict" // from the server: a verdict as JSON
)

// checkAtomics refuses a device without atomics, and logs the scope of its atomics.
func checkAtomics(log *slog.Logger, dev *verbs.Device) error {
	attr, err := dev.Query()
	if err != nil {
		return err
	}
	if attr.AtomicCap == verbs.AtomicNone {
		return errors.Errorf("%s has no atomics (%v); try: another device", dev.Name(), attr.AtomicCap)
	}
	event.DeviceQueried.Log(log, "atomics of "+dev.Name(), slog.String("atomic_cap", attr.AtomicCap.String()))
	return nil
}

func (l *ledgers) NewEndpoint(s kit.Session) (kit.Endpoint, error) {
	count, err := s.Params.Number(paramCount, 1, maxCount)
	if err != nil {
		return nil, err
	}
	add, err := s.Params.Number(paramAdd, 1, maxAdd)
	return &server{Tracer: kit.Tracer{Logger: s.Logger}, ledgers: l, name: s.Params[paramName], announced: uint64(count) * uint64(add)}, err
}

// server is the server's endpoint. It offers the counter and waits.
type server struct {
	kit.Tracer
	ledgers   *ledgers
	name      string // of the counter; "" for the client's own
	announced uint64
	account   *account // nil until Prepare, which makes the counter reachable
}

func (*server) Configure(cfg *rc.Config) { cfg.Access = verbs.AccessRemoteAtomic }

func (*server) Memory() int64 { return 4096 } // the counter's page, once for all

func (a *server) Prepare(c *rc.Conn) error {
	if err := checkAtomics(a.Logger, c.Device()); err != nil {
		return err
	}
	a.account = a.ledgers.join(a.name, c.TCP().RemoteAddr().String(), a.announced)
	what := "with the client's counter"
	if a.name != "" {
		what = "with a shared counter"
	}
	mr, err := c.RegMR(what, a.account.memory(), verbs.AccessLocalWrite|verbs.AccessRemoteAtomic)
	if err == nil {
		c.Share(counterName, mr)
	}
	return err
}

func (a *server) Run(ctx context.Context, c *rc.Conn) error {
	event.PeerAwaited.Log(a.Logger, "wait for the client's atomics; they complete only at the client", slog.Uint64("announced", a.announced))
	note, err := a.added(ctx, c)
	if err != nil {
		return err
	}
	added, err := strconv.ParseUint(string(note.Data), 10, 64)
	if err != nil {
		return errors.Errorf("the client reports %.40q, which is not a number; try: a client of this program's version", note.Data)
	}
	v, err := a.account.report(added)
	if err != nil {
		return err
	}
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := c.TCP().SendNote(ctx, oob.Note{Name: noteVerdict, Data: data}); err != nil {
		return err
	}
	return v.log(a.Logger, added)
}

// added waits for the client's sum. The client's notes that it is at work do not count as progress,
// only its atomics do; the notes keep the wait for one message from ending.
func (a *server) added(ctx context.Context, c *rc.Conn) (oob.Note, error) {
	for {
		note, err := c.TCP().RecvNote(ctx, "")
		switch {
		case err != nil || note.Name == noteAdded:
			return note, err
		case note.Name != noteMoving:
			return note, errors.Errorf("the client sent the note %q, expected %q; try: a client of this program's version", note.Name, noteAdded)
		}
	}
}

// Close closes the client's account. The client can no longer reach the counter.
func (a *server) Close() error {
	if a.account == nil {
		return nil
	}
	last, v := a.account.end()
	if !last || v.exact() && v.right() {
		return nil
	}
	level := slog.LevelInfo
	if !v.right() {
		level = slog.LevelWarn
	}
	event.CounterSettled.LogAt(level, a.Logger, "no client of this counter is left; "+v.String(), v.attrs()...)
	return nil
}

func (v verdict) attrs() []slog.Attr {
	attrs := []slog.Attr{slog.Uint64("counter", v.Counter), slog.Uint64("low", v.Low), slog.Uint64("high", v.Low+v.Uncertain),
		slog.Bool("exact", v.exact()), slog.Bool("right", v.right())}
	if v.Died > 0 {
		attrs = append(attrs, slog.Int("died", v.Died))
	}
	return attrs
}

// log logs a verdict at the end of a client's part. A wrong sum is an error.
func (v verdict) log(log *slog.Logger, added uint64) error {
	if !v.right() {
		if len(v.Sharers) > 1 {
			return errors.Errorf("the sum is wrong: %v; one of the counter's clients (%s) does not report all that it adds; try: --counter with a name that only your clients know", v, strings.Join(v.Sharers, ", "))
		}
		return errors.Errorf("the sum is wrong: %v; this client alone had the counter, so it does not report all that it adds; or else try: dmesg for errors of the device", v)
	}
	text := "the sum is right: "
	if !v.exact() {
		text = "the sum is consistent with the reports so far: "
	}
	event.SumChecked.Log(log, text+v.String(), append([]slog.Attr{slog.Uint64("added", added)}, v.attrs()...)...)
	return nil
}

// client is the client's endpoint.
type client struct {
	kit.Tracer
	count int
	add   uint64
	op    string
	name  string // of the counter; "" for one of its own

	ops    kit.Tracer // of the operations
	found  *verbs.MR  // the old value that an operation returns
	remote oob.Region

	// floor is the least value that the counter can have: the value that the last operation
	// left or found, if there was one. The counter may pass 2^64, so a difference below 2^63
	// counts as upwards.
	floor uint64
	seen  bool
	lost  int // races that a CMP_SWP lost

	mayHaveAdded *bool // to a shared counter, in any attempt
	verified     bool  // the server's verdict is here

	reported time.Time // when this end last reported progress
}

// reportEvery is how often the client reports progress, because the server gets no completions.
const reportEvery = time.Second

func newClientSide(f *pflag.FlagSet) kit.Side {
	var flags client
	f.IntVar(&flags.count, "count", 10, "how many operations to do")
	f.StringVar(&flags.op, "op", opBoth, fmt.Sprintf("the operation: %s, %s or %s", opBoth, opFetchAdd, opCmpSwap))
	f.Uint64Var(&flags.add, "add", 1, "what each operation adds to the counter")
	f.StringVar(&flags.name, "counter", "", "name of a counter to share with the clients that give the same name (default: a counter for this client alone); --retry then ends at the first add")
	flags.mayHaveAdded = new(bool)
	return kit.SideFunc(func(s kit.Session) (kit.Endpoint, error) {
		switch {
		case len(flags.name) > maxName:
			return nil, usage.Errorf("--counter has %d bytes; try: a name of at most %d", len(flags.name), maxName)
		case flags.count < 1 || flags.count > maxCount:
			return nil, usage.Errorf("--count %d is out of range; try: --count 1 to %d", flags.count, maxCount)
		case flags.add < 1 || flags.add > maxAdd:
			return nil, usage.Errorf("--add %d is out of range; try: --add 1 to %d", flags.add, uint64(maxAdd))
		case flags.op != opFetchAdd && flags.op != opCmpSwap && flags.op != opBoth:
			return nil, usage.Errorf("there is no operation %q; try: --op %s, %s or %s", flags.op, opFetchAdd, opCmpSwap, opBoth)
		case *flags.mayHaveAdded:
			return nil, errors.Errorf("the connection was lost after this client had begun to add to the counter %q, and the job does not add twice; "+
				"try: without --counter, or compare the counter and run the client again with the --count that is missing", flags.name)
		}
		e := flags
		e.Tracer = kit.Tracer{Logger: s.Logger}
		return &e, nil
	})
}

func (a *client) Configure(cfg *rc.Config) {
	cfg.Params[paramCount] = strconv.Itoa(a.count)
	cfg.Params[paramAdd] = strconv.FormatUint(a.add, 10)
	if a.name != "" {
		cfg.Params[paramName] = a.name
	}
}

func (a *client) Prepare(c *rc.Conn) (err error) {
	if err := checkAtomics(a.Logger, c.Device()); err != nil {
		return err
	}
	a.found, err = c.AllocMR("for the old value", counterBytes, verbs.AccessLocalWrite)
	return err
}

// loggedOperations is the number of operations that are always logged. Later operations are
// logged only with -vv.
const loggedOperations = 4

func (a *client) Run(ctx context.Context, c *rc.Conn) error {
	var ok bool
	if a.remote, ok = c.PeerRegion(counterName); !ok || a.remote.Length < counterBytes || a.remote.Addr%counterBytes != 0 {
		return errors.Errorf("the server shares %d bytes at %#x as %q, but the job needs %d at an address that is a multiple of it; try: a server of this program's version",
			a.remote.Length, a.remote.Addr, counterName, counterBytes)
	}
	a.ops, a.reported = a.Tracer, time.Now()
	*a.mayHaveAdded = a.name != ""
	for i := range a.count {
		if i == loggedOperations && !a.Logger.Enabled(ctx, slog.LevelDebug) {
			event.OperationsOmitted.Log(a.Logger, "-vv shows the rest", slog.Int("operations", a.count-i))
			a.ops = kit.Tracer{Logger: slog.New(slog.DiscardHandler)}
		}
		do := a.fetchAdd
		if a.op == opCmpSwap || a.op == opBoth && i%2 == 1 {
			do = a.cmpSwap
		}
		if err := do(ctx, c); err != nil {
			return errors.WithMessagef(err, "operation %d", i+1)
		}
	}
	added := uint64(a.count) * a.add
	event.AtomicsDone.Log(a.Logger, "added to the server's counter", slog.Int("operations", a.count), slog.Uint64("added", added),
		slog.Int("lost_races", a.lost), slog.Uint64("last_seen", a.floor))
	return a.compare(ctx, c, added)
}

// compare has the server compare the sum with the counter.
func (a *client) compare(ctx context.Context, c *rc.Conn, added uint64) error {
	if err := c.TCP().SendNote(ctx, oob.Note{Name: noteAdded, Data: strconv.AppendUint(nil, added, 10)}); err != nil {
		return err
	}
	note, err := c.TCP().RecvNote(ctx, noteVerdict)
	if err != nil {
		return err
	}
	var v verdict
	if err := json.Unmarshal(note.Data, &v); err != nil {
		return fmt.Errorf("the server's verdict: %w; try: a server of this program's version", err)
	}
	if err := a.rises(v.Counter); err != nil {
		return errors.WithMessage(err, "the server's verdict")
	}
	a.verified = v.right()
	return v.log(a.Logger, added)
}

// Succeeded reports whether the sum is right. Then only the goodbye is left.
func (a *client) Succeeded() bool { return a.verified }

func (a *client) fetchAdd(ctx context.Context, c *rc.Conn) error {
	found, err := a.do(ctx, c, verbs.SendWR{Opcode: verbs.OpAtomicFetchAndAdd, CompareAdd: a.add})
	if err != nil {
		return err
	}
	a.floor = found + a.add
	event.AtomicDone.Log(a.ops.Logger, "added", slog.Uint64("found", found), slog.Uint64("left", a.floor))
	return nil
}

// cmpSwap adds with CMP_SWP. It expects the value that was last seen, and tries again until the
// counter has the expected value. The first operation of a client expects 0, which is a guess.
func (a *client) cmpSwap(ctx context.Context, c *rc.Conn) error {
	for {
		expected, guess := a.floor, !a.seen
		found, err := a.do(ctx, c, verbs.SendWR{Opcode: verbs.OpAtomicCmpAndSwp, CompareAdd: expected, Swap: expected + a.add})
		if err != nil {
			return err
		}
		if found == expected {
			a.floor = expected + a.add
			event.AtomicDone.Log(a.ops.Logger, "swapped", slog.Uint64("found", found), slog.Uint64("left", a.floor))
			return nil
		}
		a.floor = found
		why := "0 was a guess"
		if !guess {
			why = "another was quicker"
			a.lost++
		}
		event.AtomicLost.Log(a.ops.Logger, why+": nothing changed; try again with the value found", slog.Uint64("expected", expected), slog.Uint64("found", found))
	}
}

// do executes one operation and returns the value that it found. That value is never less than
// an earlier one, because no client subtracts from the counter.
func (a *client) do(ctx context.Context, c *rc.Conn, wr verbs.SendWR) (uint64, error) {
	wr.ID, wr.SGL = 1, kit.Gather(a.found, counterBytes)
	wr.RemoteAddr, wr.RKey = a.remote.Addr, a.remote.RKey
	if _, err := a.ops.Do(ctx, c, wr, "the atomic's completion"); err != nil {
		return 0, err
	}
	if time.Since(a.reported) > reportEvery {
		a.reported = time.Now()
		if err := c.TCP().SendNote(ctx, oob.Note{Name: noteMoving}); err != nil {
			return 0, err
		}
	}
	found := binary.NativeEndian.Uint64(a.found.Bytes()) // the device converts it to this host's byte order
	err := a.rises(found)
	a.seen = true
	return found, err
}

func (a *client) rises(to uint64) error {
	if a.seen && to-a.floor >= 1<<63 {
		return errors.Errorf("the counter holds %d, but held %d before: an add was lost; try: dmesg for errors of the device", to, a.floor)
	}
	return nil
}
