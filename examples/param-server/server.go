// The server: it has the weights, and moves them when all workers have written their gradients.

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

// server is a running server.
type server struct {
	settings
	dev     *verbs.Device
	out     io.Writer
	at      vector // the weights, at first 0
	working []*member
}

// member is the server's side of a worker.
type member struct {
	number int
	conn   *rc.Conn
	mr     *verbs.MR
}

func (m *member) String() string {
	return fmt.Sprintf("worker %d (%v)", m.number, m.conn.TCP().RemoteAddr())
}

func (m *member) region() region { return m.mr.Bytes() }

// serve trains with the workers that connect to address. It returns nil only if the known weights were
// found. It calls listening, if not nil, when it listens.
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
	l.Close() // later workers are refused
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
		return c.QP().PostRecv([]verbs.RecvWR{{}}) // for the first gradient: see collect
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
		if _, err := m.conn.WaitSend(ctx); err != nil { // Finish may overtake the last SEND
			return err
		}
		return m.conn.Finish(ctx)
	})
	if len(s.working) == 0 {
		return errors.New("no worker came to the end; try: look at their output")
	}
	if off := s.at.distance(&known); off > s.tolerance {
		return fmt.Errorf("not converged: after %d rounds a weight is off by %.4f, and %v is allowed; try: more --rounds, or another --rate than %v", s.rounds, off, s.tolerance, s.rate)
	}
	fmt.Fprintf(s.out, "converged: every weight is within %v of the known ones\n", s.tolerance)
	return nil
}

// round does one round, and returns the mean of the gradients and of the losses. It drops workers that
// are gone. The result stays correct, with more noise, because the others' data is of the same
// kind.
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
		return mean, 0, fmt.Errorf("no worker is left in round %d; try: look at their output", round)
	}
	share := 1 / float64(len(s.working))
	for _, m := range s.working {
		gradient := m.region().vector(atGradient)
		mean.add(share, &gradient)
		loss += share * m.region().float(atLoss)
	}
	return mean, loss, nil
}

// announce sends a worker the number of a round as immediate data: its weights can be READ now.
func (s *server) announce(m *member, round uint32) error {
	return m.conn.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSendWithImm, Flags: verbs.SendSignaled, Imm: round}})
}

// collect waits until a worker's gradient is in its region. The completion brings no data, because the
// device has put the gradient there. Its immediate data is the number of the round.
func collect(ctx context.Context, m *member, round uint32) error {
	if _, err := m.conn.WaitSend(ctx); err != nil { // of announce; its error says more
		return err
	}
	wc, err := m.conn.WaitRecv(ctx)
	if err != nil {
		return err
	}
	if wc.Opcode != verbs.WCRecvRDMAWithImm || wc.Imm() != round || wc.ByteLen != regionSize-atGradient {
		return fmt.Errorf("it sent %v of %d bytes with the immediate %d, where the gradient of round %d was to come", wc.Opcode, wc.ByteLen, wc.Imm(), round)
	}
	// For the next gradient. The worker sends it only after the next announcement, so this
	// receive is early enough.
	return m.conn.QP().PostRecv([]verbs.RecvWR{{}})
}

// each calls do for every worker, with one timeout for all calls, and drops the workers for which do
// fails.
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
