package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/softtest"
	"github.com/rawverbs/rawverbs/verbs"
)

func joinGroup(t *testing.T) *member {
	m, err := join(softtest.Open(t).Name())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.leave(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// offerUntilEnd offers a name until the test ends. It returns a channel of the members that it
// makes: one, unless a send fails.
func offerUntilEnd(t *testing.T, name, text string) <-chan *member {
	device := stallingPrefix + softtest.Open(t).Name()
	members := make(chan *member, 2)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- offer(ctx, func() (*member, error) {
			m, err := join(device)
			if err == nil {
				members <- m
			}
			return m, err
		}, name, text, t.Output())
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return members
}

func TestFind(t *testing.T) {
	for i := range 3 {
		offerUntilEnd(t, fmt.Sprint("name ", i), fmt.Sprint("text ", i))
	}
	m := joinGroup(t)
	for i := range 3 {
		text, took, err := m.find(t.Context(), fmt.Sprint("name ", i), 100)
		if err != nil || text != fmt.Sprint("text ", i) || took <= 0 {
			t.Errorf("%q after %v, %v", text, took, err)
		}
	}
	if text, _, err := m.find(t.Context(), "nothing", 2); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("%q, %v", text, err)
	}
}

// TestStrangeDatagrams sends what is not a question to the group before the question.
func TestStrangeDatagrams(t *testing.T) {
	offerUntilEnd(t, "name", "text")
	m := joinGroup(t)
	for _, d := range []datagram{
		{},
		{Name: "name", GID: m.gid.GID, QPN: 1 << 24},
		{Name: "name", QPN: 1}, // no GID to answer to
		{Name: "name", Text: "an answer to nobody's question"},
	} {
		if err := m.send(t.Context(), m.group, verbs.MulticastQPN, d); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.send(t.Context(), m.group, verbs.MulticastQPN, datagram{Name: strings.Repeat("x", size)}); err == nil {
		t.Error("a datagram that is too long was sent")
	}
	other := joinGroup(t)
	if text, _, err := other.find(t.Context(), "name", 100); err != nil || text != "text" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestAFailedAnswerIsNotTheEnd: the queue pair of the offer is lost, and a new one answers.
func TestAFailedAnswerIsNotTheEnd(t *testing.T) {
	offers := offerUntilEnd(t, "name", "text")
	offering := <-offers
	sge := offering.mr.SGE(0, 1)
	sge.LKey++ // of no region
	err := offering.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled,
		SGL: []verbs.SGE{sge}, AH: offering.group, RemoteQPN: verbs.MulticastQPN, RemoteQKey: qkey}})
	if err != nil {
		t.Fatal(err)
	}
	if text, _, err := joinGroup(t).find(t.Context(), "name", 100); err != nil || text != "text" {
		t.Errorf("%q, %v", text, err)
	}
	if len(offers) == 0 {
		t.Error("the old member answered: nothing was lost")
	}
}

// TestAStrangeGIDHoldsUpNobody: the kernel looks for the owner of a GID for as long as the test
// runs.
func TestAStrangeGIDHoldsUpNobody(t *testing.T) {
	stall := make(chan struct{})
	stalled.Store(&stall)
	offerUntilEnd(t, "name", "text")
	t.Cleanup(func() { close(stall) }) // runs first
	m := joinGroup(t)
	if err := m.send(t.Context(), m.group, verbs.MulticastQPN, datagram{Name: "name", GID: strangeGID, QPN: 1}); err != nil {
		t.Fatal(err)
	}
	if text, _, err := m.find(t.Context(), "name", 100); err != nil || text != "text" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestLostDatagramsArePrinted sends more datagrams than the receiver has receives.
func TestLostDatagramsArePrinted(t *testing.T) {
	m, from := joinGroup(t), joinGroup(t)
	ah, err := from.pd.CreateAH(from.gid.To(m.gid.GID))
	if err != nil {
		t.Fatal(err)
	}
	defer ah.Close()
	for range queued + 10 {
		if err := from.send(t.Context(), ah, m.qp.QPN(), datagram{Name: "name"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.qp.MissedReceives(); errors.Is(err, errors.ErrUnsupported) {
		return // a device of libibverbs
	}
	testkit.Until(t, "count of the last datagram", func() bool {
		n, err := m.qp.MissedReceives()
		return err != nil || n >= 10
	})
	var out bytes.Buffer
	if m.printLost(&out); out.String() != "discovery: 10 datagrams were lost, because no receive was posted\n" {
		t.Errorf("%q", &out)
	}
}

func TestALongAnswerIsRefused(t *testing.T) {
	err := offer(t.Context(), func() (*member, error) { return nil, errors.New("joined") }, "name", strings.Repeat("x", size), t.Output())
	if err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("got %v", err)
	}
}

func TestWrongArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"find"}, {"offer", "x"}, {"lose", "x", "y"}} {
		var out bytes.Buffer
		if err := run(t.Context(), args, &out); err == nil || !strings.Contains(err.Error(), "try: discovery") {
			t.Errorf("%q: %v", args, err)
		}
	}
	if _, err := join("nodevice"); err == nil || !strings.Contains(err.Error(), "nodevice") {
		t.Error(err)
	}
}
