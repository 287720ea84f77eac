package exchange

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestExchangeStates plays the life of one end. Each step has an event, the expected actions,
// and the expected states of both machines.
func TestExchangeStates(t *testing.T) {
	type step struct {
		happening happening
		do        []action
		send      sendState
		recv      recvState
	}
	for _, test := range []struct {
		name   string
		states states
		begin  []action
		steps  []step
	}{
		{"the active end", states{active: true}, []action{sendMR}, []step{
			{sentMR, nil, ssMRSent, rsInit},
			{gotMR, []action{doRDMA}, ssMRSent, rsMRRecv},
			{didRDMA, []action{sendDone}, ssRDMASent, rsMRRecv},
			{sentDone, nil, ssDoneSent, rsMRRecv},
			{gotDone, []action{release, finish}, ssDoneSent, rsDoneRecv},
		}},
		{"the passive end", states{}, nil, []step{
			{gotMR, []action{sendMR}, ssInit, rsMRRecv},
			{sentMR, []action{doRDMA}, ssMRSent, rsMRRecv},
			{didRDMA, []action{sendDone}, ssRDMASent, rsMRRecv},
			{gotDone, []action{release}, ssRDMASent, rsDoneRecv},
			{sentDone, []action{finish}, ssDoneSent, rsDoneRecv},
		}},
		{"the acknowledgement of MSG_MR comes after the answer", states{active: true}, []action{sendMR}, []step{
			{gotMR, nil, ssInit, rsMRRecv},
			{sentMR, []action{doRDMA}, ssMRSent, rsMRRecv},
			{gotDone, []action{release}, ssMRSent, rsDoneRecv},
			{didRDMA, []action{sendDone}, ssRDMASent, rsDoneRecv},
			{sentDone, []action{finish}, ssDoneSent, rsDoneRecv},
		}},
		{"the peer finishes before anything is acknowledged", states{active: true}, []action{sendMR}, []step{
			{gotMR, nil, ssInit, rsMRRecv},
			{gotDone, []action{release}, ssInit, rsDoneRecv},
			{sentMR, []action{doRDMA}, ssMRSent, rsDoneRecv},
			{didRDMA, []action{sendDone}, ssRDMASent, rsDoneRecv},
			{sentDone, []action{finish}, ssDoneSent, rsDoneRecv},
		}},
		{"an end that leaves, MSG_DONE last", states{leaves: true}, nil, []step{
			{gotMR, []action{sendMR}, ssInit, rsMRRecv},
			{sentMR, []action{doRDMA}, ssMRSent, rsMRRecv},
			{didRDMA, nil, ssRDMASent, rsMRRecv},
			{gotDone, []action{release, leave}, ssRDMASent, rsDoneRecv},
		}},
		{"an end that leaves, its RDMA last", states{leaves: true}, nil, []step{
			{gotMR, []action{sendMR}, ssInit, rsMRRecv},
			{sentMR, []action{doRDMA}, ssMRSent, rsMRRecv},
			{gotDone, []action{release}, ssMRSent, rsDoneRecv},
			{didRDMA, []action{leave}, ssRDMASent, rsDoneRecv},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			x := test.states
			if got := x.begin(); !slices.Equal(got, test.begin) {
				t.Errorf("to begin: %v, want %v", got, test.begin)
			}
			for _, s := range test.steps {
				do, err := x.on(s.happening)
				if err != nil || !slices.Equal(do, s.do) || x.send != s.send || x.recv != s.recv {
					t.Fatalf("%v: do %v, %v %v, %v; want do %v, %v %v", s.happening, do, x.send, x.recv, err, s.do, s.send, s.recv)
				}
			}
		})
	}
}

// TestExchangeStatesRefuse checks that any event in any state either moves its machine by one
// state, or is an error that names both and moves nothing.
func TestExchangeStatesRefuse(t *testing.T) {
	legal := map[happening]string{sentMR: "SS_INIT", didRDMA: "SS_MR_SENT", sentDone: "SS_RDMA_SENT", gotMR: "RS_INIT", gotDone: "RS_MR_RECV"}
	for send := ssInit; send <= ssDoneSent; send++ {
		for recv := rsInit; recv <= rsDoneRecv; recv++ {
			for h := sentMR; h <= gotDone; h++ {
				before := states{active: true, send: send, recv: recv}
				x := before
				_, err := x.on(h)
				in := send.String()
				if h == gotMR || h == gotDone {
					in = recv.String()
				}
				moved := int(x.send-send) + int(x.recv-recv)
				if in == legal[h] {
					if err != nil || moved != 1 {
						t.Errorf("%v in %v: moved by %d, %v", h, in, moved, err)
					}
					continue
				}
				var order *orderError
				if !errors.As(err, &order) || x != before {
					t.Errorf("%v in %v: %+v, %v", h, in, x, err)
					continue
				}
				for _, want := range []string{h.String(), in, legal[h]} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%v in %v: the error lacks %q: %v", h, in, want, err)
					}
				}
				if peers := strings.Contains(err.Error(), "the peer breaks the order"); peers != (h == gotMR || h == gotDone) {
					t.Errorf("%v: wrong end blamed: %v", h, err)
				}
			}
		}
	}
}

func TestExchangeNames(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{ssMRSent.String(), "SS_MR_SENT"}, {rsDoneRecv.String(), "RS_DONE_RECV"},
		{sendState(9).String(), "sendState(9)"}, {recvState(-1).String(), "recvState(-1)"},
		{leave.String(), "leave"}, {action(6).String(), "action(6)"}, {happening(5).String(), "happening(5)"},
	} {
		if test.got != test.want {
			t.Errorf("%q, want %q", test.got, test.want)
		}
	}
}
