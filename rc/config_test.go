package rc

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestAFieldWithoutEffectIsRefused checks that the error names the field.
func TestAFieldWithoutEffectIsRefused(t *testing.T) {
	srq, timing := &verbs.SRQInit{MaxWR: 4, MaxSGE: 1}, DefaultTiming()
	exchange := func(context.Context, *Conn, func([]oob.Endpoint) error) error { return nil }
	for want, cfg := range map[string]Config{
		"Config.Job":            {Exchange: exchange, Job: "job"},
		"Config.Program":        {Exchange: exchange, Program: "program"},
		"Config.Params":         {Exchange: exchange, Params: map[string]string{"a": "b"}},
		"Config.QKey":           {QKey: 1},
		"Config.Access":         {Type: verbs.UD, Access: verbs.AccessRemoteRead},
		"Config.Timing":         {Type: verbs.UC, Timing: &timing},
		"Config.MaxReads":       {Type: verbs.UD, MaxReads: 1},
		"Config.Cap.MaxRecvWR":  {SRQ: srq, Cap: verbs.QPCap{MaxRecvWR: 1}},
		"Config.Cap.MaxRecvSGE": {SRQ: srq, Cap: verbs.QPCap{MaxRecvSGE: 1}},
	} {
		if _, err := Dial(t.Context(), "127.0.0.1:1", cfg); err == nil || !strings.Contains(err.Error(), want+" ") {
			t.Errorf("%s: got %v", want, err)
		}
	}
	for want, server := range map[string]Config{
		"Config.Job":     {Job: "job"},
		"Config.Program": {Program: "program"},
		"Config.Params":  {Params: map[string]string{"a": "b"}},
	} {
		_, _, cerr, serr := dialPair(t, Config{}, server)
		var refused *oob.PeerError
		if serr == nil || !strings.Contains(serr.Error(), want+" ") || !errors.As(cerr, &refused) {
			t.Errorf("%s: client %v, server %v", want, cerr, serr)
		}
	}
}

// TestConnectUsesItsOwnTimeout checks that Connect does not use the listener's Timeout.
func TestConnectUsesItsOwnTimeout(t *testing.T) {
	_, s := pair(t, Config{}, Config{Timeout: 100 * time.Millisecond})
	began := time.Now()
	if err := s.TCP().Barrier(t.Context(), "alone"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}
