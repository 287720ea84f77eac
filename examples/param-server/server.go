// The server: it has the weights, and moves them once all workers have told what
// would make them better.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// server is the server at work.
type server struct {
	settings
	dev     *verbs.Device
	out     io.Writer
	at      vector // the weights, at first 0
	working []*member
}

// member is a worker as the server has it.
type member struct {
	number int
	conn   *rc.Conn
	mr     *verbs.MR
}

func (m *member) String() string {
	return fmt.Sprintf("worker %d (%v)", m.number, m.conn.TCP().RemoteAddr())
}

func (m *member) region() region { return m.mr.Bytes() }

// serve trains with the workers that come to address. It returns nil only if the
// known weights were found. Once it listens it calls listening, if that is not nil.
func serve(ctx context.Context, dev *verbs.Device, cfg settings, address string, listening func(address string), out io.Writer) error {
	s := &server{settings: cfg, dev: dev, out: out}
	defer s.closeAll()
	l, err := rc.Listen(ctx, address, rc.ListenConfig{Job: job, Timeout: s.timeout})
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Fprintf(out, "listening on %v for %d workers\n", l.Addr(), s.workers)
	if listening != nil {
		listening(l.Addr().String())
	}
	for len(s.working) < s.workers {
		in, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		if m, err := s.admit(ctx, in); err != nil {
			fmt.Fprintf(out, "%v does not become a worker: %v\n", in.TCP().RemoteAddr(), err)
		} else {
			s.working = append(s.working, m)
			fmt.Fprintf(out, "%v has joined\n", m)
		}
	}
	l.Close() // who comes now is too late
	return s.train(ctx)
}

// admit connects one worker.
func (s *server) admit(ctx context.Context, in *rc.Incoming) (*member, error) {
	if _, err := in.Hello(ctx); err != nil {
		in.Refuse(err)
		return nil, err
	}
	m := &member{number: len(s.working) + 1}
	var err error
	m.conn, err = in.Connect(ctx, rc.Config{Device: s.dev, Timeout: s.timeout, Access: verbs.AccessRemoteWrite | verbs.AccessRemoteRead, Prepare: func(c *rc.Conn) (err error) {
		m.mr, err = c.AllocMR(regionName, regionSize, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead)
		if err != nil {
			return err
		}
		m.region().setNumber(atNumber, uint64(m.number))
		m.region().setNumber(atSeed, s.seed)
		c.Share(regionName, m.mr)
		return c.QP().PostRecv([]verbs.RecvWR{{}}) // for the first gradient; see collect
	}})
	return m, err
}

// train does the rounds.
func (s *server) train(ctx context.Context) error {
	known := knownWeights(s.seed)
	for round := 1; round <= s.rounds; round++ {
		gradient, loss, err := s.round(ctx, uint32(round))
		if err != nil {
			return err
		}
		s.at.add(-s.rate, &gradient)
		off := s.at.distance(&known)
		fmt.Fprintf(s.out, "round %3d  loss %9.6f  farthest weight off by %.4f  workers %d\n", round, loss, off, len(s.working))
		if math.IsNaN(off) || math.IsInf(off, 0) {
			return fmt.Errorf("the weights have gone beyond all bounds in round %d; try: a lower --rate than %v", round, s.rate)
		}
	}
	s.each(ctx, func(ctx context.Context, m *member) error {
		if err := s.announce(m, finished); err != nil {
			return err
		}
		if _, err := m.conn.WaitSend(ctx); err != nil { // Finish may overtake what is on its way
			return err
		}
		return m.conn.Finish(ctx)
	})
	if len(s.working) == 0 {
		return errors.New("no worker came to the end; try: looking at their output")
	}
	if off := s.at.distance(&known); off > s.tolerance {
		return fmt.Errorf("not converged: after %d rounds a weight is off by %.4f, and %v is allowed; try: more --rounds, or another --rate than %v", s.rounds, off, s.tolerance, s.rate)
	}
	fmt.Fprintf(s.out, "converged: every weight is within %v of the known ones\n", s.tolerance)
	return nil
}

// round does one round, and returns the mean of the gradients and of the losses. A
// worker that is gone is left out from then on: the others' data is of the same
// kind, so what they find is right, if noisier.
func (s *server) round(ctx context.Context, round uint32) (mean vector, loss float64, err error) {
	s.each(ctx, func(_ context.Context, m *member) error {
		m.region().setVector(atWeights, &s.at)
		return s.announce(m, round)
	})
	s.each(ctx, func(ctx context.Context, m *member) error { return collect(ctx, m, round) })
	if err := context.Cause(ctx); err != nil {
		return mean, 0, err
	}
	if len(s.working) == 0 {
		return mean, 0, fmt.Errorf("no worker is left in round %d; try: looking at their output", round)
	}
	share := 1 / float64(len(s.working))
	for _, m := range s.working {
		gradient := m.region().vector(atGradient)
		mean.add(share, &gradient)
		loss += share * m.region().float(atLoss)
	}
	return mean, loss, nil
}

// announce tells a worker, by an immediate alone, that the weights of a round are
// there to be READ.
func (s *server) announce(m *member, round uint32) error {
	return m.conn.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSendWithImm, Flags: verbs.SendSignaled, Imm: round}})
}

// collect waits until a worker's gradient is in its slot. No data comes with the
// completion: the device has put it where the worker said, and by the immediate it
// tells which round's it is.
func collect(ctx context.Context, m *member, round uint32) error {
	if _, err := m.conn.WaitSend(ctx); err != nil { // that of announce, which may say more
		return err
	}
	wc, err := m.conn.WaitRecv(ctx)
	if err != nil {
		return err
	}
	if wc.Opcode != verbs.WCRecvRDMAWithImm || wc.Imm() != round || wc.ByteLen != regionSize-atGradient {
		return fmt.Errorf("it sent %v of %d bytes with the immediate %d, where the gradient of round %d was to come", wc.Opcode, wc.ByteLen, wc.Imm(), round)
	}
	// For the next gradient, which the worker sends only when it is told to: so this
	// receive is there before.
	return m.conn.QP().PostRecv([]verbs.RecvWR{{}})
}

// each does something with every worker, all together within the timeout, and
// parts with those with whom it fails.
func (s *server) each(ctx context.Context, do func(context.Context, *member) error) {
	within, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("no answer within %v; try: a longer --timeout", s.timeout))
	defer cancel()
	var stay []*member
	for _, m := range s.working {
		if err := do(within, m); err != nil {
			m.conn.TCP().Fail("training", err)
			if ctx.Err() == nil {
				fmt.Fprintf(s.out, "%v is gone, the others go on: %v\n", m, err)
			}
			m.conn.Close()
			continue
		}
		stay = append(stay, m)
	}
	s.working = stay
}

func (s *server) closeAll() {
	for _, m := range s.working {
		m.conn.Close()
	}
}
