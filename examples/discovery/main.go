// Command discovery is an example of UD queue pairs and multicast: programs find each other by
// name, without an address, a server or TCP.
//
//	discovery offer printer "room 7, second floor"    on any hosts of a network
//	discovery find printer                            on another
//
// Everybody is a member of one multicast group. A question goes to the group: it has the name,
// and the GID and QPN of the asker. A member that offers the name answers the asker alone. UD
// loses datagrams silently, so the asker repeats the question. At its end an offer prints how many
// datagrams were lost because no receive was posted.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	_ "github.com/rawverbs/rawverbs/softroce" // soft0, for hosts without an RDMA device
	"github.com/rawverbs/rawverbs/verbs"
)

const (
	group    = "239.18.5.15"
	qkey     = 0x1851 // both ends': the device drops datagrams with another
	queued   = 64     // receives that stay posted
	grhSize  = 40     // what UD puts before the data
	size     = 1024   // of a datagram's data: fits the smallest MTU of RoCE
	interval = 200 * time.Millisecond

	maxAskers = 64 // that are answered at a time
)

// datagram is a question, or with Text an answer.
type datagram struct {
	Name string
	Text string
	GID  verbs.GID // the asker's
	QPN  uint32
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "discovery:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	offers := len(args) == 3 && args[0] == "offer"
	if !offers && (len(args) != 2 || args[0] != "find") {
		return errors.New("try: discovery offer NAME TEXT | find NAME")
	}
	first := func() (*member, error) { return join("") }
	if offers {
		return offer(ctx, first, args[1], args[2], os.Stderr)
	}
	m, err := first()
	if err != nil {
		return err
	}
	text, took, err := m.find(ctx, args[1], 10)
	if err == nil {
		_, err = fmt.Fprintf(out, "%s: %s (found in %v)\n", args[1], text, took.Round(time.Microsecond))
	}
	return errors.Join(err, m.leave())
}

// offer answers the questions for a name until ctx ends. A failed send leaves a UD queue pair
// in SQE or ERR, depending on the device. offer then writes the error to log and goes on with
// a new member.
func offer(ctx context.Context, join func() (*member, error), name, text string, log io.Writer) error {
	answer := datagram{Name: name, Text: text}
	if _, err := answer.encode(); err != nil {
		return err
	}
	for {
		m, err := join()
		if err != nil {
			return err
		}
		err = m.answer(ctx, answer)
		m.printLost(log)
		err = errors.Join(err, m.leave())
		if ctx.Err() != nil {
			return err
		}
		fmt.Fprintln(log, "discovery: starting again:", err)
		select {
		case <-time.After(interval):
		case <-ctx.Done():
		}
	}
}

// answer answers the questions for a name until ctx ends or a send fails. CreateAH can take
// seconds for a GID that nobody has, so each asker gets a goroutine.
func (m *member) answer(ctx context.Context, answer datagram) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var askers sync.WaitGroup
	defer askers.Wait()
	room := make(chan struct{}, maxAskers)
	var sending sync.Mutex
	for {
		d, ok, err := m.receive(ctx)
		if err != nil {
			return err
		}
		if !ok || d.Name != answer.Name || d.Text != "" {
			continue
		}
		select {
		case room <- struct{}{}:
		default: // too many at once: this asker asks again
			continue
		}
		askers.Go(func() {
			defer func() { <-room }()
			ah, err := m.pd.CreateAH(m.gid.To(d.GID))
			if err != nil {
				return // only this asker is lost
			}
			sending.Lock()
			defer sending.Unlock()
			if err := errors.Join(m.send(ctx, ah, d.QPN, answer), ah.Close()); err != nil {
				end(err)
			}
		})
	}
}

// find asks for a name until somebody answers, at most tries times. It returns the answer and
// the time from the first question to it.
func (m *member) find(ctx context.Context, name string, tries int) (text string, took time.Duration, err error) {
	began := time.Now()
	question := datagram{Name: name, GID: m.gid.GID, QPN: m.qp.QPN()}
	for range tries {
		if err := m.send(ctx, m.group, verbs.MulticastQPN, question); err != nil {
			return "", 0, err
		}
		round, cancel := context.WithTimeout(ctx, interval)
		for round.Err() == nil {
			d, ok, err := m.receive(round)
			if err == nil && ok && d.Name == name && d.Text != "" { // not a question, such as one's own
				cancel()
				return d.Text, time.Since(began), nil
			}
			if err != nil && round.Err() == nil {
				cancel()
				return "", 0, err
			}
		}
		cancel()
		if ctx.Err() != nil {
			return "", 0, context.Cause(ctx)
		}
	}
	return "", 0, fmt.Errorf("nobody offers %q; is a discovery offer running in this network, on an RDMA device of the same kind of address?", name)
}
