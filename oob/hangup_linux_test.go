package oob

// Tests of a peer that closes or fails while its messages still fill the inbox.

import (
	"context"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// untilFull waits until the inbox is full.
func (c *Conn) untilFull(t *testing.T) {
	t.Helper()
	testkit.Until(t, "full inbox", func() bool { return len(c.inbox) == inboxSize },
		func() string { return fmt.Sprintf("%d of %d messages", len(c.inbox), inboxSize) })
}

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
			client.untilFull(t)
			if watched.Err() != nil {
				t.Fatalf("the watch ended before the peer did: %v", context.Cause(watched))
			}
			test.end(server)
			testkit.Receive(t, watched.Done(), "end of the watch, although the peer has closed")
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
	testkit.Receive(t, watched.Done(), "end of the watch, although the peer has closed")
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
	client.untilFull(t)
	client.Close()
	if err := client.Err(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Err after Close: %v", err)
	}
}
