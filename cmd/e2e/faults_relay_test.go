package e2e

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
)

// held names a message of the exchange, which a relay holds: its sender, its type and, for a barrier, its name.
type held struct {
	from string // "client" or "server"
	kind oob.MessageType
	name string
}

// relay passes one exchange between a client and a server. It holds one message until release.
type relay struct {
	port    string
	at      held
	reached chan struct{} // closed when the message has arrived
	free    chan struct{} // closed by release
	once    sync.Once
	garble  bool // set before release: a bit of the message changes

	mu    sync.Mutex
	conns []net.Conn
	over  sync.WaitGroup
}

// relayTo starts a relay in front of a server.
func relayTo(t *testing.T, place faultPlace, port string, at held) *relay {
	t.Helper()
	var l net.Listener
	var err error
	place.in(theClient, func() { l, err = net.Listen("tcp", net.JoinHostPort(place.relayAt, "0")) })
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{at: at, reached: make(chan struct{}), free: make(chan struct{})}
	_, r.port, _ = net.SplitHostPort(l.Addr().String())
	var dialer net.Dialer
	ctx := testkit.Context(t)
	r.over.Go(func() {
		client, err := l.Accept()
		if err != nil {
			return // the test is over
		}
		l.Close()
		var server net.Conn
		place.in(theClient, func() { server, err = dialer.DialContext(ctx, "tcp", net.JoinHostPort(place.address, port)) })
		if err != nil {
			client.Close()
			return
		}
		r.mu.Lock()
		r.conns = append(r.conns, client, server)
		r.mu.Unlock()
		r.over.Go(func() { r.pass(client, server, "client") })
		r.over.Go(func() { r.pass(server, client, "server") })
	})
	t.Cleanup(func() {
		l.Close()
		r.release()
		r.mu.Lock()
		for _, c := range r.conns {
			c.Close()
		}
		r.mu.Unlock()
		r.over.Wait()
	})
	return r
}

// address is the relay's own address, from which the server's connection comes.
func (r *relay) address() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conns[1].LocalAddr().String()
}

// release lets the held message and all later ones pass.
func (r *relay) release() { r.once.Do(func() { close(r.free) }) }

// pass passes messages in one direction. The end of the stream passes too.
func (r *relay) pass(from, to net.Conn, sender string) {
	defer func() {
		if tcp, ok := to.(*net.TCPConn); ok {
			tcp.CloseWrite()
		}
	}()
	for arrived := false; ; {
		var header [oob.HeaderSize]byte
		if _, err := io.ReadFull(from, header[:]); err != nil {
			return
		}
		kind := oob.MessageType(header[5])
		frame := append(header[:], make([]byte, binary.BigEndian.Uint32(header[8:]))...)
		if _, err := io.ReadFull(from, frame[oob.HeaderSize:]); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return
		}
		if !arrived && r.matches(sender, kind, frame[oob.HeaderSize:]) {
			arrived = true
			close(r.reached)
			<-r.free
			if r.garble {
				frame[len(frame)*2/3] ^= 0x10
			}
		}
		if _, err := to.Write(frame); err != nil {
			return
		}
	}
}

func (r *relay) matches(sender string, kind oob.MessageType, body []byte) bool {
	if sender != r.at.from || kind != r.at.kind {
		return false
	}
	// A barrier's body is the length of its name, and the name.
	return kind != oob.TypeBarrier || len(body) > 0 && string(body[1:]) == r.at.name
}
