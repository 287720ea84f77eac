package rnet

import (
	"context"
	"net"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// TestDialTimeout: the error of a Dial that ran out of time says so as a net.Error.
func TestDialTimeout(t *testing.T) {
	silent, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	_, d := listen(t, ListenConfig{})
	_, err = d.DialContext(testkit.Expiring(t), "tcp", silent.Addr().String())
	if e, ok := err.(net.Error); !ok || !e.Timeout() {
		t.Errorf("%T: %v", err, err)
	}
}

// TestNoFallback: a peer of this package that refuses causes no fallback, and with TLS no peer does.
func TestNoFallback(t *testing.T) {
	_, stranger := certificate(t) // of another CA
	mine, _ := certificate(t)
	for name, test := range map[string]struct{ listening, dialing Config }{
		"a certificate of another CA": {Config{TLSConfig: stranger}, Config{TLSConfig: mine}},
		"a listener without TLS":      {Config{}, Config{TLSConfig: mine}},
		"a listener with TLS":         {Config{TLSConfig: stranger}, Config{}},
		"a wrong ring":                {Config{}, Config{Ring: 100_000}},
	} {
		t.Run(name, func(t *testing.T) {
			l, d := listen(t, ListenConfig{Config: test.listening})
			d.TLSConfig = test.dialing.TLSConfig
			if test.dialing.Ring != 0 {
				d.Ring = test.dialing.Ring
			}
			d.Fallback = func(context.Context, string, string) (net.Conn, error) {
				t.Error("it fell back")
				return nil, net.ErrClosed
			}
			if _, err := d.DialContext(t.Context(), "tcp", l.Addr().String()); err == nil {
				t.Error("it connected")
			}
		})
	}
}
