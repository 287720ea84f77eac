package oob

// Tests of a peer that closes or fails while its messages still fill the inbox.

import (
	"context"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/errors"
)

// TestDeathBehindUnreadNotes checks that the watch ends at once, and that the notes can
// still be received.
func TestDeathBehindUnreadNotes(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(server *Conn)
		want error
	}{
		"closed": {func(s *Conn) { s.Close() }, io.EOF},
		"killed": {func(s *Conn) { s.nc.(*net.TCPConn).SetLinger(0); s.Close() }, syscall.ECONNRESET},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			client, server := loopback(t, Options{})
			watched, stop := client.Watch(t.Context())
			defer stop()
			const notes = inboxSize + 5
			for i := range notes {
				if err := server.SendNote(t.Context(), Note{Name: fmt.Sprint(i)}); err != nil {
					t.Fatal(err)
				}
			}
			for len(client.inbox) < inboxSize {
				time.Sleep(time.Millisecond)
			}
			if watched.Err() != nil {
				t.Fatalf("the watch ended before the peer did: %v", context.Cause(watched))
			}
			test.end(server)
			select {
			case <-watched.Done():
			case <-time.After(5 * time.Second):
				t.Fatal("the watch did not notice that the peer closed")
			}
			var closed *ClosedError
			if err := context.Cause(watched); !errors.As(err, &closed) || !errors.Is(err, test.want) {
				t.Errorf("the watch ended with %v, want %v", err, test.want)
			}
			for i := range notes {
				if n, err := client.RecvNote(t.Context(), ""); err != nil || n.Name != fmt.Sprint(i) {
					t.Fatalf("note %d: %+v, %v", i, n, err)
				}
			}
			if _, err := client.RecvNote(t.Context(), ""); !errors.As(err, &closed) || !errors.Is(err, test.want) {
				t.Errorf("after the last note: %v, want %v", err, test.want)
			}
		})
	}
}

// TestFailureBehindUnreadNotes checks that the peer's error arrives after its notes.
func TestFailureBehindUnreadNotes(t *testing.T) {
	client, server := loopback(t, Options{})
	watched, stop := client.Watch(t.Context())
	defer stop()
	const notes = inboxSize + 5
	for range notes {
		if err := server.SendNote(t.Context(), goldenNote); err != nil {
			t.Fatal(err)
		}
	}
	server.Fail("poll", errors.New("status 12"))
	server.Close()
	select {
	case <-watched.Done():
	case <-time.After(5 * time.Second):
		t.Fatal("the watch did not notice that the peer closed")
	}
	for range notes {
		if _, err := client.RecvNote(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
	}
	var failed *PeerError
	if _, err := client.RecvNote(t.Context(), ""); !errors.As(err, &failed) || failed.Step != "poll" {
		t.Errorf("after the last note: %v", err)
	}
}

// TestFullInboxThenReadAndClose checks that watchHangup disturbs neither later reads nor
// Close.
func TestFullInboxThenReadAndClose(t *testing.T) {
	noLeaks(t)
	client, server := loopback(t, Options{})
	_, stop := client.Watch(t.Context())
	defer stop()
	for round := range 20 {
		for i := range 2 * inboxSize {
			if err := server.SendNote(t.Context(), Note{Name: fmt.Sprint(i)}); err != nil {
				t.Fatal(err)
			}
		}
		if round == 19 {
			break
		}
		for i := range 2 * inboxSize {
			if n, err := client.RecvNote(t.Context(), ""); err != nil || n.Name != fmt.Sprint(i) {
				t.Fatalf("note %d: %+v, %v", i, n, err)
			}
		}
	}
	for len(client.inbox) < inboxSize {
		time.Sleep(time.Millisecond)
	}
	client.Close()
	if err := client.Err(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Err after Close: %v", err)
	}
}
