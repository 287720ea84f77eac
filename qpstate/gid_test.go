package qpstate

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestParseGID(t *testing.T) {
	mapped := GID{10: 0xff, 11: 0xff, 12: 10, 13: 99, 14: 0, 15: 1}
	for text, want := range map[string]GID{
		"fe80::1": {0: 0xfe, 1: 0x80, 15: 1},
		"fe80:0000:0000:0000:0000:0000:0000:0001": {0: 0xfe, 1: 0x80, 15: 1},
		"FE80::1":          {0: 0xfe, 1: 0x80, 15: 1},
		"::":               {},
		"::ffff:10.99.0.1": mapped,
		"::ffff:0a63:0001": mapped,
		"0000:0000:0000:0000:0000:ffff:0a63:0001": mapped, // show_gids
		"10.99.0.1":                        mapped,
		"00000000000000000000ffff0a630001": mapped, // the pingpongs' exchange
	} {
		got, err := ParseGID(text)
		if err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "fe80::1%eth0", "10.99.0", "00000000000000000000ffff0a63000", "00000000000000000000ffff0a63000g", "gid", " fe80::1"} {
		if got, err := ParseGID(text); err == nil || !got.IsZero() || !strings.Contains(err.Error(), "try:") {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func TestGIDIsText(t *testing.T) {
	in := map[string]GID{"gid": {0: 0xfe, 1: 0x80, 15: 1}}
	text, err := json.Marshal(in)
	if err != nil || string(text) != `{"gid":"fe80::1"}` {
		t.Fatalf("%s, %v", text, err)
	}
	var out map[string]GID
	if err := json.Unmarshal(text, &out); err != nil || out["gid"] != in["gid"] {
		t.Errorf("%v, %v", out, err)
	}
	g := in["gid"]
	if err := g.UnmarshalText([]byte("nothing")); err == nil || g != in["gid"] {
		t.Errorf("%v, %v", g, err)
	}
}

func FuzzParseGID(f *testing.F) {
	for _, seed := range []string{"fe80::1", "10.0.0.1", "::ffff:10.0.0.1", "00000000000000000000ffff0a630001", "fe80::1%eth0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		g, err := ParseGID(text)
		if err != nil {
			return
		}
		if again, err := ParseGID(g.String()); err != nil || again != g {
			t.Errorf("%q is %v, whose text is %v, %v", text, g, again, err)
		}
	})
}
