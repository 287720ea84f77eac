package main

import (
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/usage"
)

func TestHostPort(t *testing.T) {
	for text, want := range map[string]struct {
		host string
		port int
	}{
		"10.0.0.2":       {"10.0.0.2", 18515},
		"10.0.0.2:4000":  {"10.0.0.2", 4000},
		"server":         {"server", 18515},
		"::1":            {"::1", 18515},
		"[::1]":          {"::1", 18515},
		"[::1]:4000":     {"::1", 4000},
		"[fe80::1%eth0]": {"fe80::1%eth0", 18515},
	} {
		host, port, err := hostPort(text)
		if host != want.host || port != want.port || err != nil {
			t.Errorf("%s: %s %d %v, want %v", text, host, port, err, want)
		}
	}
	for _, text := range []string{"", "[]", ":1", "host:", "host:0", "host:65536", "host:ssh", "a:b:c", "[a:b:c]", "[a:b:c]:1", "[::1", "::1]", "[[::1]]"} {
		host, port, err := hostPort(text)
		if !errors.As(err, new(usage.Error)) {
			t.Errorf("%q: %q %d %v, want a usage error", text, host, port, err)
		}
	}
}
