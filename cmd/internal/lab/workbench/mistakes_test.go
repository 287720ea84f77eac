//go:build !js

package workbench

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rawverbs/rawverbs/cmd/internal/lab/mistake"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestMistakes makes each mistake of cmd/internal/lab/mistake and compares what both ends report with what
// is promised there.
func TestMistakes(t *testing.T) {
	views := mistakeViews()
	for _, name := range mistake.Names() {
		t.Run(name, func(t *testing.T) {
			i := slices.IndexFunc(views, func(v MistakeView) bool { return v.Name == name })
			if i < 0 {
				t.Fatal("no session makes this mistake")
			}
			m, _ := mistake.Find(name)
			s := played(t, Setup{}, views[i].Actions)
			for side, want := range map[int]struct {
				saw   []any
				state verbs.QPState
			}{client: {m.Expect.Client.Saw, m.Expect.Client.State}, server: {m.Expect.Server.Saw, m.Expect.Server.State}} {
				if got := seen(s, side); !slices.Equal(got, names(want.saw)) {
					t.Errorf("the %v saw %v, want %v", s.hosts[side].side, got, names(want.saw))
				}
				o, err := s.hosts[side].find("QP", theQP)
				if err != nil {
					t.Fatal(err)
				}
				if in, _ := s.world.InspectQP(s.hosts[side].side, o.qp); in.Attr.State != want.state {
					t.Errorf("the %v's queue pair is in %v, want %v", s.hosts[side].side, in.Attr.State, want.state)
				}
			}
			if views[i].Question <= 0 || views[i].Question >= len(views[i].Actions) {
				t.Errorf("the question comes at action %d of %d", views[i].Question, len(views[i].Actions))
			}
		})
	}
	if len(views) != len(mistake.Names()) {
		t.Errorf("%d mistakes, want %d", len(views), len(mistake.Names()))
	}
}

// TestFates compares what became of each packet that was not simply delivered: a refused request is not delivered, and the
// two SENDs behind one gap have one check.
func TestFates(t *testing.T) {
	const gap, ignored = "0x0000ff is expected first", "no packet 0x0000ff waits for an answer"
	for name, want := range map[string][]string{
		"psn-off-by-one":    {"1 sequence_naks: " + gap, "2 drop_nak: " + ignored, "3 drop_gap: " + gap},
		"receive-too-small": {"1 refused_invalid: "},
		"mtu-mismatch":      {"3 refused_invalid: "},
		"out-of-bounds":     {"1 refused_access: outside of region buf", "2 : outside of region buf"},
		"memory-closed":     {"1 refused_operational: "},
	} {
		views := mistakeViews()
		i := slices.IndexFunc(views, func(v MistakeView) bool { return v.Name == name })
		var got []string
		for _, p := range played(t, Setup{}, views[i].Actions).Snapshot(0).Packets {
			if p.Outcome != "" || p.Check != "" {
				got = append(got, fmt.Sprintf("%d %s: %s", p.ID, p.Outcome, p.Check))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// seen returns the statuses and errnos that a host saw, in order.
func seen(s *Session, side int) []string {
	list := []string{}
	for i, r := range s.results {
		if s.actions[i].Host != s.hosts[side].side.String() {
			continue
		}
		if r.Refused != nil {
			list = append(list, r.Refused.Errno)
		}
		for _, c := range r.Completions {
			list = append(list, c.Status)
		}
	}
	return list
}

// names returns the names of statuses and errnos.
func names(saw []any) []string {
	list := []string{}
	for _, x := range saw {
		switch x := x.(type) {
		case verbs.WCStatus:
			list = append(list, statusName(x))
		case interface{ Error() string }:
			list = append(list, refusalOf(x).Errno)
		}
	}
	return list
}
