//go:build !rdma

package run

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testdevice"
	"github.com/rawverbs/rawverbs/internal/testkit"
)

// running is a server of this process.
type running struct {
	t       *testing.T
	counts  *Counts
	log     chan map[string]any
	address string
}

// serves runs a server until the test ends.
func serves(t *testing.T, device string, change func(*ServerOptions)) *running {
	t.Helper()
	selection, err := newSelection(ServerRole, native, "")
	if err != nil {
		t.Fatal(err)
	}
	s := &running{t: t, counts: new(Counts), log: make(chan map[string]any, 1000)}
	o := ServerOptions{
		Options:   Options{Device: device, IBPort: 1, Timeout: testkit.Limit, Logger: slog.New(slog.NewJSONHandler(s, nil))},
		Selection: selection, Listen: "127.0.0.1", MaxClients: 4, MaxSize: DefaultMaxSize, Counts: s.counts,
	}
	if change != nil {
		change(&o)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, o) }()
	t.Cleanup(func() {
		stop()
		testkit.Receive(t, served, "end of the server") // a client may be cut short
	})
	s.address = s.event("server.listening")["address"].(string)
	return s
}

// Write takes a line of the log.
func (s *running) Write(line []byte) (int, error) {
	var record map[string]any
	if err := json.Unmarshal(line, &record); err != nil {
		return 0, err
	}
	s.log <- record
	return len(line), nil
}

// event waits for an event.
func (s *running) event(kind string) map[string]any {
	s.t.Helper()
	for {
		if record := testkit.Receive(s.t, s.log, kind); record["event"] == kind {
			return record
		}
	}
}

// TestNothingIsMissingBeforeItHappens checks that a new server has a count for each job that it does.
func TestNothingIsMissingBeforeItHappens(t *testing.T) {
	for _, test := range []struct{ allow, want []string }{{nil, JobNames()}, {[]string{"file", "send"}, []string{"file", "send"}}} {
		s := serves(t, testdevice.Name(t), func(o *ServerOptions) { o.Allow = test.allow })
		var has []string
		for _, j := range s.counts.Snapshot().Jobs {
			if has = append(has, j.Job); j.Succeeded+j.Failed > 0 {
				t.Errorf("%+v", j)
			}
		}
		if slices.Sort(test.want); !slices.Equal(has, test.want) {
			t.Errorf("%v, want %v", has, test.want)
		}
	}
}
