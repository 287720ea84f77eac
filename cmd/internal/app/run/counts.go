// What a server counts, for metrics.

package run

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/admission"
	"github.com/rawverbs/rawverbs/internal/secure"
	"github.com/rawverbs/rawverbs/verbs"
)

// Counts has a server's counts. The zero value is ready for use, and is for one Serve. Several
// goroutines may call its methods at once.
type Counts struct {
	WCs verbs.WCCounts // completions of the server's device

	connections atomic.Uint64
	refused     [numRefusals]atomic.Uint64

	mu        sync.Mutex
	state     State
	device    *verbs.Device // nil unless it is open
	port      uint8
	check     func() error          // whether clients can connect to the device
	admission *admission.Controller // nil before Serve listens
	limits    admission.Limits
	tls       *certificates // nil without --tls
	jobs      map[string]*JobCount
}

// State is whether a server takes clients.
type State int

// The states, in order.
const (
	Starting State = iota
	Serving
	Stopping
)

func (s State) String() string { return [...]string{"starting", "serving", "stopping"}[s] }

// JobCount counts the runs of one job.
type JobCount struct {
	Job               string
	Succeeded, Failed uint64
	Bytes             int64                  // that the job has moved, as far as the server knows: see kit.Moved
	Runs              uint64                 // of admitted clients; those whose parameters are refused only count as Failed
	Took              time.Duration          // the sum over all Runs
	Within            [len(Durations)]uint64 // the Runs that took at most so long; see Durations
}

// Durations are the classes by which a JobCount counts runs.
var Durations = [...]time.Duration{10 * time.Millisecond, 30 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond,
	time.Second, 3 * time.Second, 10 * time.Second, 30 * time.Second, 100 * time.Second, 300 * time.Second, 1000 * time.Second, 3000 * time.Second}

// Snapshot is a Counts at one moment.
type Snapshot struct {
	State       State
	TLS         secure.Validity     // of the certificate; zero without --tls
	TLSInvalid  bool                // the certificate is not valid now, so no client can connect
	Connections uint64              // over TCP, so far
	Refused     [numRefusals]uint64 // connections that began no job, by Refusal
	Clients     int                 // that have a place
	Jobs        []JobCount

	Memory                    int64 // bytes that the clients in progress have asked for
	MemoryLimit, ClientsLimit int64

	Device    string            // "" if it is not open
	InProcess bool              // of the device
	Down      error             // why clients cannot connect to the device; nil: they can
	Counters  map[string]uint64 // of the device's port; the driver defines the names
}

// Snapshot returns the counts. It reads the device's counters, which takes some microseconds.
func (c *Counts) Snapshot() Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Snapshot{State: c.state, Connections: c.connections.Load(), MemoryLimit: c.limits.Memory, ClientsLimit: int64(c.limits.Clients)}
	for why := range s.Refused {
		s.Refused[why] = c.refused[why].Load()
	}
	if c.admission != nil {
		u := c.admission.Usage()
		s.Clients, s.Memory = u.Clients, u.Memory
	}
	if c.tls != nil {
		now := c.tls.current.Load()
		s.TLS, s.TLSInvalid = now.Validity, !now.Now()
	}
	for _, j := range c.jobs {
		s.Jobs = append(s.Jobs, *j)
	}
	slices.SortFunc(s.Jobs, func(a, b JobCount) int { return strings.Compare(a.Job, b.Job) })
	if c.device != nil {
		s.Device, s.InProcess, s.Down = c.device.Name(), c.device.Info().InProcess, c.check()
		counters, _ := c.device.QueryCounters(c.port) // a device may have none
		s.Counters = maps.Clone(counters)
	}
	return s
}

// use sets the device whose counters a Snapshot has; nil before the device is closed. check returns why clients cannot
// connect to it.
func (c *Counts) use(dev *verbs.Device, port uint8, check func() error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.device, c.port, c.check = dev, port, check
}

// serve says that the server takes clients: a Snapshot has the usage of the controller, and the validity of the certificates.
func (c *Counts) serve(controller *admission.Controller, limits admission.Limits, tls *certificates) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state, c.admission, c.limits, c.tls = Serving, controller, limits, tls
}

// stop says that the server takes no more clients.
func (c *Counts) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = Stopping
}

// expect makes the counts of the jobs that the server does. A Snapshot has them from now on, so that an alert sees
// the first failure as an increase.
func (c *Counts) expect(jobs []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs = make(map[string]*JobCount)
	for _, name := range jobs {
		c.jobs[name] = &JobCount{Job: name}
	}
}

// finished counts the end of a client's job, of which bytes are what it has moved. began is when the client was
// admitted; zero: it was not. A connection that began no job does not count.
func (c *Counts) finished(job string, began time.Time, bytes int64, err error) {
	if errors.As(err, new(jobless)) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	j := c.jobs[job]
	if err == nil {
		j.Succeeded++
	} else {
		j.Failed++
	}
	j.Bytes += bytes
	if began.IsZero() {
		return
	}
	j.Runs++
	took := time.Since(began)
	j.Took += took
	for i, most := range Durations {
		if took <= most {
			j.Within[i]++
		}
	}
}
