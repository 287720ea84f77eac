package e2e

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"
)

// Who connects to a server may send anything: it is told in one record, takes
// nothing with it, and others are served meanwhile.
func TestHostileBytes(t *testing.T) {
	noLeak(t)
	header := func(version, kind byte, length uint32) []byte {
		return binary.BigEndian.AppendUint32([]byte{'R', 'V', 'O', '\n', version, kind, 0, 0}, length)
	}
	tests := map[string]struct {
		send []byte
		want string // in the server's record
	}{
		"garbage":          {[]byte{0xde, 0xad, 0xbe, 0xef, 1, 2, 3, 4, 5, 6, 7, 8}, "does not speak this protocol"},
		"HTTP GET":         {[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "HTTP client"},
		"another version":  {header(2, 1, 4), "version 2"},
		"frame too long":   {header(1, 1, 0xffffffff), "4294967295"},
		"unknown message":  {header(1, 77, 0), "77"},
		"wrong message":    {append(header(1, 4, 2), 1, 'x'), "barrier"},
		"hello of rubbish": {append(header(1, 1, 8), 1, 0xff, 0, 0, 0, 0, 0, 0), "protocol error"},
	}
	s := serve(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			nc := dialRaw(t, s)
			peer := nc.LocalAddr().String()
			nc.SetDeadline(time.Now().Add(limit))
			if _, err := nc.Write(test.send); err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, nc) // until the server closes
			s.event("client.failed", "peer", peer, "error", test.want)
		})
	}
	s.stillServes(t)
	s.stops()
}

// A client may die after any byte of its hello.
func TestHelloCutAtEachByte(t *testing.T) {
	noLeak(t)
	s := serve(t)
	frame := helloFrame()
	for n := range frame {
		nc := dialRaw(t, s)
		if _, err := nc.Write(frame[:n]); err != nil {
			t.Fatal(err)
		}
		peer := nc.LocalAddr().String()
		nc.Close()
		s.event("client.failed", "peer", peer)
	}
	s.stillServes(t)
	s.stops()
}

// A client may die at each step; with a reset as when its host goes, or with a
// close as when it is killed.
func TestDeathAtEachStep(t *testing.T) {
	noLeak(t)
	s := serve(t)
	for steps := range len(fakeSteps) + 1 {
		name := "connected"
		if steps > 0 {
			name = fakeSteps[steps-1].name
		}
		for _, how := range []string{"close", "reset"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				nc := dialRaw(t, s)
				peer := nc.LocalAddr().String()
				fake := fakeClient(t, nc, steps)
				if how == "reset" {
					nc.SetLinger(0)
				}
				within(t, 10*time.Second, "noticing it", func() {
					fake.Close()
					s.event("client.failed", "peer", peer, "error", "the connection")
				})
			})
		}
	}
	s.stillServes(t)
	s.stops()
}

// Who says no hello is let go long before the timeout.
func TestSilentFromTheBeginning(t *testing.T) {
	noLeak(t)
	s := serve(t, "--timeout", "5m")
	began := time.Now()
	peer := dialRaw(t, s).LocalAddr().String()
	s.event("client.failed", "peer", peer, "error", "hello")
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
	s.stillServes(t)
	s.stops()
}

// A silent client gets the timeout and no more, and holds up nobody.
func TestSilentClients(t *testing.T) {
	noLeak(t)
	s := serve(t, "--timeout", "6s")
	var silent []net.Conn
	for steps := range len(fakeSteps) + 1 {
		nc := dialRaw(t, s)
		silent = append(silent, nc)
		fakeClient(t, nc, steps)
	}
	s.client(t).succeeds()
	for _, nc := range silent {
		r := s.event("client.failed", "peer", nc.LocalAddr().String())
		if r.str("error") == "" {
			t.Errorf("no reason: %v", r)
		}
	}
	s.stillServes(t)
	s.stops()
}
