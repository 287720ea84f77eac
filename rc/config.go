// What a program may choose, and what it gets if it does not.

package rc

import (
	"log/slog"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/verbs"
)

// Config holds the choices for a connection. The zero value works: the first
// device, its port 1, a RoCE v2 GID of the peer's family. It is read when it is given, and
// may serve for any number of connections. Dial and Connect refuse a Config with a field that
// the others leave without effect, and name the field.
type Config struct {
	Device   *verbs.Device // to stay open as long as the Conn; nil opens the first and closes it with the Conn
	Port     uint8         // of the device; 0 is 1
	GIDIndex *int          // a slot of the port's GID table; nil chooses, see verbs.ChooseGID
	MTU      int           // path MTU in bytes, at most the port's active one; 0 is that

	// What Dial says in its hello; a listener's hello is in its [ListenConfig].
	Job     string            // what the connection is for, as the peer's, unless one is ""
	Program string            // for people at the other end: name and version; may be ""
	Params  map[string]string // the job's parameters, within the limits of oob.Hello; nil is none

	// Exchange stands in for the native protocol, to talk to programs that speak
	// another; nil is the native one. There is no hello then.
	Exchange Exchange

	// Type is the queue pairs' transport: RC (the zero value), UC or UD.
	Type verbs.QPType

	// QPs is the number of queue pairs, at most oob.MaxEndpoints, or 256 with an
	// Exchange; 0 is one. Both ends must have as many: a listener that follows its
	// clients reads the number in a parameter of the hello before it connects.
	QPs int

	Cap    verbs.QPCap    // queue sizes, of each queue pair; a field of 0 is 16 requests, 1 element, no inline data
	SRQ    *verbs.SRQInit // receives of all queue pairs, at Conn.SRQ; nil: each has a receive queue of its own
	OneCQ  bool           // sends and receives complete in one queue: SendCQ and RecvCQ are the same, and so are WaitSends and WaitRecvs
	Spin   time.Duration  // how long a wait polls before it sleeps: faster, but it uses a whole CPU; ignored where verbs.CQ.WaitMakesProgress
	Access verbs.Access   // what the peer may do through the queue pairs; 0 is nothing

	PostPath verbs.PostPath // how sends are posted; on libibverbs ATOMIC WRITE needs verbs.PostWRAPI, and there is no FLUSH

	// Prepare runs with the queue pairs in INIT, before the peer can send: it
	// registers memory (Conn.AllocMR), shares it (Conn.Share), posts receives. Its error
	// is sent to the peer, and ends the connecting; nil does nothing.
	Prepare func(*Conn) error

	Timing   *Timing       // the queue pairs' timers and retries; nil is DefaultTiming
	PSN      *uint32       // of the first packet, 24 bits; nil is a random one for each queue pair
	MaxReads int           // READs and atomics in flight, each way, at most 255; 0 is 16. The device may have less
	QKey     uint32        // UD: what datagrams to this end must carry; 0 is a key, too
	Timeout  time.Duration // for each message over TCP whose context has no deadline; 0 is oob.DefaultTimeout, less than 0 none

	Logger *slog.Logger // gets what happens; nil discards it

	conns int // that share the completion queues; 0 is one
}

// Timing holds the codes that say how long and how often a queue pair tries. All four
// count: the zero value waits for an ACK for ever, and never resends.
type Timing struct {
	Timeout     uint8 // wait for an ACK: 4.096 µs · 2^Timeout; 0 is for ever
	RetryCnt    uint8 // resends without an ACK, at most 7
	RNRRetry    uint8 // resends to a peer with no receive posted, at most 6; 7 is for ever
	MinRNRTimer uint8 // the wait asked of the peer then: see qpstate.RNRTimer; 0 is 655 ms
}

// DefaultTiming returns the Timing of a Config without one: a queue pair waits 67 ms for an
// ACK and resends 7 times. It retries forever, every 0.64 ms, while the peer has no receive.
func DefaultTiming() Timing {
	return Timing{Timeout: 14, RetryCnt: 7, RNRRetry: 7, MinRNRTimer: 12}
}

const (
	defaultWR    = 16
	defaultReads = 16 // if the device has no lower limit
)

func orDefault[T int | uint8 | uint32 | verbs.QPType](value, def T) T {
	if value == 0 {
		return def
	}
	return value
}

// complete fills in what was left out.
func (c Config) complete() Config {
	c.Port = orDefault(c.Port, 1)
	c.Type = orDefault(c.Type, verbs.RC)
	c.QPs, c.conns = orDefault(c.QPs, 1), orDefault(c.conns, 1)
	c.MaxReads = orDefault(c.MaxReads, defaultReads)
	c.Cap.MaxSendWR = orDefault(c.Cap.MaxSendWR, defaultWR)
	c.Cap.MaxSendSGE = orDefault(c.Cap.MaxSendSGE, 1)
	if c.SRQ == nil {
		c.Cap.MaxRecvWR = orDefault(c.Cap.MaxRecvWR, defaultWR)
		c.Cap.MaxRecvSGE = orDefault(c.Cap.MaxRecvSGE, 1)
	}
	if c.Timing == nil {
		timing := DefaultTiming()
		c.Timing = &timing
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// checkUnused refuses fields that are set and would have no effect. accepted says that the
// peer connected to a listener, whose hello is over.
func (c *Config) checkUnused(accepted bool) error {
	const (
		onlyUD      = "only UD has a Q_Key"
		onlyRC      = "only RC has it"
		ofListener  = "the ListenConfig's was said in the hello; set that one"
		noHello     = "an Exchange has no hello to say it in"
		otherSRQ    = "the receives are the SRQ's; set SRQ.MaxWR and SRQ.MaxSGE"
		noneRemotes = "a UD queue pair takes no remote access"
	)
	remote := verbs.AccessRemoteRead | verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic
	rc, ud := c.Type == 0 || c.Type == verbs.RC, c.Type == verbs.UD
	hello, why := accepted || c.Exchange != nil, ofListener
	if c.Exchange != nil {
		why = noHello
	}
	for _, field := range []struct {
		name   string
		unused bool
		why    string
	}{
		{"Job", hello && c.Job != "", why},
		{"Program", hello && c.Program != "", why},
		{"Params", hello && len(c.Params) > 0, why},
		{"QKey", !ud && c.QKey != 0, onlyUD},
		{"Access", ud && c.Access&remote != 0, noneRemotes},
		{"Timing", !rc && c.Timing != nil, onlyRC},
		{"MaxReads", !rc && c.MaxReads != 0, onlyRC},
		{"Cap.MaxRecvWR", c.SRQ != nil && c.Cap.MaxRecvWR != 0, otherSRQ},
		{"Cap.MaxRecvSGE", c.SRQ != nil && c.Cap.MaxRecvSGE != 0, otherSRQ},
	} {
		if field.unused {
			return errors.Errorf("rc: Config.%s is set and would have no effect: %s", field.name, field.why)
		}
	}
	return nil
}

func (c *Config) oobOptions() oob.Options {
	return oob.Options{Timeout: c.Timeout, Observer: event.Exchange(c.Logger)}
}
