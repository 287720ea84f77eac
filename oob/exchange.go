package oob

// The steps of a run, as methods. Each sends one message, waits for the peer's message,
// or does both in that order. A wrong message from the peer fails the step; this side
// then sends the error to the peer too.

import (
	"context"
	"fmt"
	"time"

	"github.com/pkg/errors"
)

// failTimeout limits the sending of an error message, because a program that has failed
// should exit soon.
const failTimeout = time.Second

// lastWord limits how long a failed write waits for the reader. The peer's error message,
// sent before the peer closed, may still be unread.
const lastWord = 250 * time.Millisecond

const tryAlike = "start both ends with the same options, so that they take the same steps"

// Hello sends h and returns the peer's Hello. The two roles must differ. The two jobs
// must be equal unless one is empty; a side with an empty job runs the peer's job.
func (c *Conn) Hello(ctx context.Context, h Hello) (Hello, error) {
	frame, err := appendHello(nil, h)
	if err != nil {
		return Hello{}, err
	}
	peer, err := exchange[Hello](c, ctx, "hello", TypeHello, "", frame)
	if err != nil {
		return Hello{}, err
	}
	switch {
	case peer.Role == h.Role:
		err = c.refuse("hello", fmt.Sprintf("both ends claim to be the %v", h.Role), "start one end as client and the other as server")
	case peer.Job != h.Job && peer.Job != "" && h.Job != "":
		err = c.refuse("hello", fmt.Sprintf("this end runs the job %q and the peer %q", h.Job, peer.Job), tryAlike)
	}
	if err != nil {
		return Hello{}, err
	}
	return peer, nil
}

// ExchangeEndpoint sends e and returns the peer's endpoint, which has the same index and
// QP type.
func (c *Conn) ExchangeEndpoint(ctx context.Context, e Endpoint) (Endpoint, error) {
	peer, err := c.ExchangeEndpoints(ctx, []Endpoint{e})
	if err != nil {
		return Endpoint{}, err
	}
	return peer[0], nil
}

// ExchangeEndpoints sends up to MaxEndpoints endpoints, in ascending order of Index. It
// returns the peer's endpoints. They have the same number, indexes, QP types and order.
func (c *Conn) ExchangeEndpoints(ctx context.Context, list []Endpoint) ([]Endpoint, error) {
	frame, err := appendEndpoints(nil, list)
	if err != nil {
		return nil, err
	}
	peer, err := exchange[[]Endpoint](c, ctx, "endpoints", TypeEndpoints, "", frame)
	if err != nil {
		return nil, err
	}
	if err := checkPeerEndpoints(list, peer); err != nil {
		return nil, c.refuse("endpoints", err.Error(), tryAlike)
	}
	return peer, nil
}

// ExchangeRegions sends up to MaxRegions regions and returns the peer's. Both lists may be empty.
func (c *Conn) ExchangeRegions(ctx context.Context, list []Region) ([]Region, error) {
	frame, err := appendRegions(nil, list)
	if err != nil {
		return nil, err
	}
	return exchange[[]Region](c, ctx, "regions", TypeRegions, "", frame)
}

// Barrier returns when both sides have reached the barrier called name. If the peer is
// at another barrier, the error names both.
//
// Barrier waits for the slower side. After a long job, give ctx a suitable deadline;
// otherwise Options.Timeout applies. An rc.Conn that is connected has none.
func (c *Conn) Barrier(ctx context.Context, name string) error {
	frame, err := appendBarrier(nil, name)
	if err != nil {
		return err
	}
	step := stepName(TypeBarrier, name)
	peer, err := exchange[string](c, ctx, step, TypeBarrier, name, frame)
	if err != nil {
		return err
	}
	if peer != name {
		return c.refuse(step, fmt.Sprintf("this end is at the barrier %q and the peer at %q", name, peer), tryAlike)
	}
	return nil
}

// SendNote sends n. It does not wait until the peer has received n.
func (c *Conn) SendNote(ctx context.Context, n Note) error {
	frame, err := appendNote(nil, n)
	if err != nil {
		return err
	}
	ctx, cancel := c.stepContext(ctx)
	defer cancel()
	return c.send(ctx, stepName(TypeNote, n.Name), TypeNote, n.Name, frame)
}

// RecvNote waits for the peer's next note and returns it. The note must have this name
// unless name is "". If it has another name, the error names both. The caller owns the
// data.
func (c *Conn) RecvNote(ctx context.Context, name string) (Note, error) {
	ctx, cancel := c.stepContext(ctx)
	defer cancel()
	step := stepName(TypeNote, name)
	n, err := receive[Note](c, ctx, step, TypeNote)
	if err != nil {
		return Note{}, err
	}
	if name != "" && n.Name != name {
		return Note{}, c.refuse(step, fmt.Sprintf("this end waits for the note %q and the peer sent %q", name, n.Name), tryAlike)
	}
	return n, nil
}

// Fail reports to the peer that this side failed at step because of cause. The peer's
// pending or next call then returns a [*PeerError]. Fail tries to send for at most one
// second. The caller must still call Close.
//
// Only the first Fail of a Conn sends a message. Fail sends nothing if cause is the
// failure or the end of the peer, or if the connection carries raw bytes. An exchange
// that finds a broken protocol has called Fail already.
func (c *Conn) Fail(step string, cause error) {
	if cause == nil {
		cause = errors.New("no reason given")
	}
	if !reportable(cause) || c.claim(carriesMessages) != nil || c.failed.Swap(true) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), failTimeout)
	defer cancel()
	began := time.Now()
	frame := AppendError(nil, &PeerError{Step: step, Message: cause.Error()})
	if c.write(ctx, frame) == nil {
		c.observe(began, true, message{Type: TypeError, Name: step, Size: len(frame)})
	}
}

// refuse sends the peer the error for a message that does not match the step, and
// returns that error.
func (c *Conn) refuse(step, problem, try string) error {
	err := &ProtocolError{Peer: c.peer, Problem: problem, Try: try}
	c.Fail(step, err)
	return stepError(opWaiting, step, err)
}

// exchange sends frame, then waits for the peer's message of the same type.
func exchange[T any](c *Conn, ctx context.Context, step string, t MessageType, name string, frame []byte) (T, error) {
	ctx, cancel := c.stepContext(ctx)
	defer cancel()
	if err := c.send(ctx, step, t, name, frame); err != nil {
		var none T
		return none, err
	}
	return receive[T](c, ctx, step, t)
}

// send writes one frame. Unless that is a hello, it stops when the connection ends. It returns the reason, which explains more
// than a broken pipe.
func (c *Conn) send(ctx context.Context, step string, t MessageType, name string, frame []byte) error {
	if err := c.claim(carriesMessages); err != nil {
		return stepError(opSending, step, err)
	}
	began := time.Now()
	var err error
	watched, cancel := ctx, context.CancelFunc(func() {})
	if t != TypeHello { // a foreign peer learns from a hello with whom it speaks, even if its own bytes came first
		err = c.ctx.Err()
		watched, cancel = c.Watch(ctx)
	}
	defer cancel()
	if err == nil {
		err = c.write(watched, frame)
		if err == nil {
			c.observe(began, true, message{Type: t, Name: name, Size: len(frame)})
			return nil
		}
		if watched.Err() == nil {
			c.awaitEnd()
		}
	}
	err = c.explain(ctx, opSending, step, began, err)
	c.sendBreach(step, err)
	return err
}

// awaitEnd waits up to lastWord until the reader has found why a write failed.
func (c *Conn) awaitEnd() {
	timer := time.NewTimer(lastWord)
	defer timer.Stop()
	select {
	case <-c.ctx.Done():
	case <-timer.C:
	}
}

// receive waits for the next message, which must be of type want. If a message has
// arrived, receive returns it even if the connection or ctx has ended since.
func receive[T any](c *Conn, ctx context.Context, step string, want MessageType) (T, error) {
	var none T
	if err := c.claim(carriesMessages); err != nil {
		return none, stepError(opWaiting, step, err)
	}
	began := time.Now()
	var m message
	c.waiting.Store(&began)
	select {
	case m = <-c.inbox:
	case <-c.silent:
	case <-ctx.Done():
	}
	c.waiting.Store(nil)
	if m.Type == 0 {
		select {
		case m = <-c.inbox:
		default:
			err := c.explain(ctx, opWaiting, step, began, nil)
			c.sendBreach(step, err)
			return none, err
		}
	}
	value, ok := m.Value.(T)
	if !ok || m.Type != want {
		return none, c.refuse(step, fmt.Sprintf("this end waits for %s and the peer sent %v", step, m), tryAlike)
	}
	return value, nil
}

// sendBreach sends err to the peer if err is a ProtocolError.
func (c *Conn) sendBreach(step string, err error) {
	var breach *ProtocolError
	if errors.As(err, &breach) {
		c.Fail(step, err)
	}
}

// stepName returns the name of a barrier or note in errors: `barrier "done"`.
func stepName(t MessageType, name string) string {
	if name == "" {
		return t.String()
	}
	return fmt.Sprintf("%v %q", t, name)
}
