// The choices of a program, and their defaults.

package rc

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/internal/secure"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/verbs"
)

// Config holds the choices for a connection. The zero value works. A Config can serve any number
// of connections. Dial and Connect refuse a Config with a field that would have no effect, and
// name the field. Job, Program and Params are for Dial: see [ListenConfig].
type Config struct {
	Device   *verbs.Device // must stay open until Close; nil: the Conn opens the first device and closes it
	Port     uint8         // port of the device; 0 is 1
	GIDIndex *int          // slot of the port's GID table; nil: verbs.ChooseGID chooses
	MTU      int           // path MTU in bytes, at most the port's active MTU; 0 is the active MTU

	Job      string            // purpose of the connection; equal at both ends, unless one is ""
	Program  string            // name and version for people at the other end; may be ""
	Params   map[string]string // parameters of the job, within the limits of oob.Hello; may be nil
	Exchange Exchange          // speaks another protocol over TCP; nil: the native one
	Timeout  time.Duration     // limit of each message over TCP while connecting, and of a Farewell; 0 is oob.DefaultTimeout, less than 0 no limit

	Type     verbs.QPType   // transport: RC (the zero value), UC or UD
	PostPath verbs.PostPath // how sends are posted; on libibverbs ATOMIC WRITE needs verbs.PostWRAPI, and FLUSH is missing
	QPs      int            // number of queue pairs, equal at both ends, at most oob.MaxEndpoints, or 256 with an Exchange; 0 is 1
	Cap      verbs.QPCap    // sizes of each queue pair; a field of 0 is 16 requests, 1 element, no inline data
	SRQ      *verbs.SRQInit // one shared receive queue for all queue pairs; nil: each has its own receive queue
	OneCQ    bool           // sends and receives complete in one CQ; WaitSends and WaitRecvs are then the same
	Spin     time.Duration  // how long a wait polls, using a whole CPU, before it sleeps: see verbs.WaitOptions
	Access   verbs.Access   // what the peer may do through the queue pairs; 0 is nothing
	Timing   *Timing        // timers and retries of RC; nil is DefaultTiming
	PSN      *uint32        // number of the first packet, 24 bits; nil: random for each queue pair
	MaxReads int            // READs and atomics in flight, each way, 1 to 255; 0 is 16 or the device's lower limit
	QKey     uint32         // UD: the key that datagrams to this end must carry; 0 is a key too

	// PeerNetworks are the networks from which the peer's GID may be. The address of its TCP connection
	// is always allowed, and each address of this host if the peer is on this host. Empty but not nil:
	// no network. nil: no network at a listener with a soft device, otherwise every address.
	PeerNetworks []netip.Prefix

	TLS  *tls.Config                                       // of the exchange over TCP, see LoadTLS; nil: the exchange is plain. RDMA is never encrypted
	Wrap func(context.Context, net.Conn) (net.Conn, error) // returns the connection to use in place of the TCP connection; TLS runs over it; may be nil

	Prepare func(*Conn) error // runs in INIT, before the peer can send; its error ends the connecting; may be nil
	Logger  *slog.Logger      // gets all events, most at Debug; nil discards them
}

// LoadTLS reads a directory with the files tls.crt, tls.key and ca.crt, in PEM, and returns a
// Config for either end: TLS 1.3, where both ends must show a certificate from the CA. The
// server's certificate must have the name or the address that the client dials. "rdma_lab tls"
// makes such directories. The error names the file. LoadTLS reads the files once: for new ones, call it again in
// Config's GetConfigForClient, or before each Dial.
func LoadTLS(dir string) (*tls.Config, error) { return secure.Load(dir) }

// Timing has the timers and retries of RC, as codes. 0 is a legal value of each, so change a [DefaultTiming].
type Timing struct {
	Timeout     uint8 // wait for an ACK: 4.096 µs · 2^Timeout; 0 is forever, and needs Forever
	Forever     bool  // Timeout is 0 on purpose: a lost packet is never sent again
	RetryCnt    uint8 // resends without an ACK, at most 7
	RNRRetry    uint8 // resends to a peer without a posted receive, at most 6; 7 is forever
	MinRNRTimer uint8 // wait before the peer resends to this end, see qpstate.RNRTimer; 0 is 655 ms
}

// DefaultTiming returns the default: 7 resends, 67 ms apart, without an ACK, and a resend every
// 0.64 ms, forever, to a peer without a receive.
func DefaultTiming() Timing {
	return Timing{Timeout: 14, RetryCnt: 7, RNRRetry: 7, MinRNRTimer: 12}
}

const (
	defaultWR    = 16
	defaultReads = 16 // if the device has no lower limit
)

// complete returns c with defaults for the fields that are 0.
func (c Config) complete() Config {
	c.Port = cmp.Or(c.Port, 1)
	c.Type = cmp.Or(c.Type, verbs.RC)
	c.QPs = cmp.Or(c.QPs, 1)
	c.MaxReads = cmp.Or(c.MaxReads, defaultReads)
	c.Cap.MaxSendWR = cmp.Or(c.Cap.MaxSendWR, defaultWR)
	c.Cap.MaxSendSGE = cmp.Or(c.Cap.MaxSendSGE, 1)
	if c.SRQ == nil {
		c.Cap.MaxRecvWR = cmp.Or(c.Cap.MaxRecvWR, defaultWR)
		c.Cap.MaxRecvSGE = cmp.Or(c.Cap.MaxRecvSGE, 1)
	}
	if c.Timing == nil {
		c.Timing = new(DefaultTiming())
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// checkUnused refuses fields that are set and would have no effect. accepted says that the peer
// connected to a listener, which has sent its hello.
func (c *Config) checkUnused(accepted bool) error {
	const (
		onlyUD      = "only UD has a Q_Key"
		onlyRC      = "only RC has it"
		ofListener  = "the listener's hello had the one of ListenConfig; set it there"
		noHello     = "an Exchange has no hello to carry it"
		otherSRQ    = "the receives are the SRQ's; set SRQ.MaxWR and SRQ.MaxSGE"
		noneRemotes = "a UD queue pair takes no remote access"
	)
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
		{"Wrap", accepted && c.Wrap != nil, "the listener has wrapped the connection; set ListenConfig.Wrap"},
		{"TLS", accepted && c.TLS != nil, "the listener has made the handshake; set ListenConfig.TLS"},
		{"QKey", !ud && c.QKey != 0, onlyUD},
		{"Access", ud && c.Access&remoteRights != 0, noneRemotes},
		{"Timing", !rc && c.Timing != nil, onlyRC},
		{"MaxReads", !rc && c.MaxReads != 0, onlyRC},
		{"Cap.MaxRecvWR", c.SRQ != nil && c.Cap.MaxRecvWR != 0, otherSRQ},
		{"Cap.MaxRecvSGE", c.SRQ != nil && c.Cap.MaxRecvSGE != 0, otherSRQ},
	} {
		if field.unused {
			return errors.Errorf("rc: Config.%s is set and would have no effect: %s", field.name, field.why)
		}
	}
	if c.Spin < 0 {
		return errors.Errorf("rc: Config.Spin is %v; try: 0 or more", c.Spin)
	}
	if t := c.Timing; t != nil && (t.Timeout == 0) != t.Forever {
		return errors.Errorf("rc: Config.Timing has the Timeout %d and Forever %v; 0 waits for an ACK forever; try: a change of DefaultTiming, or both if that is meant", t.Timeout, t.Forever)
	}
	return nil
}

func (c *Config) oobOptions() oob.Options {
	return oob.Options{Timeout: c.Timeout, Observer: event.Exchange(event.Steps(c.Logger))}
}
