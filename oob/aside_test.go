package oob

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
)

// TestAsides checks that asides may come between any messages, even in the midst of a
// session, and that the steps and the Observers of both sides do not notice them.
func TestAsides(t *testing.T) {
	noLeaks(t)
	var mu sync.Mutex
	var observed []string
	client, server := loopback(t, Options{Observer: func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		observed = append(observed, e.Name)
	}})
	var taken []string
	client.OnNote("aside", func(n Note) { taken = append(taken, string(n.Data)) }) // by one goroutine
	server.OnNote("aside", func(Note) {})
	preceding := 0
	server.Precede(func() []Note {
		preceding++ // one write at a time
		return []Note{{Name: "aside", Data: fmt.Append(nil, preceding, "a")}, {Name: "aside", Data: fmt.Append(nil, preceding, "b")}}
	})
	beside := make(chan struct{})
	go func() { // beside the steps
		defer close(beside)
		for range 50 {
			if err := server.SendNote(t.Context(), Note{Name: "aside", Data: []byte("beside")}); err != nil {
				t.Error(err)
			}
		}
	}()
	err1, err2 := both(
		func() error { return session(t.Context(), client, RoleClient) },
		func() error { return session(t.Context(), server, RoleServer) },
	)
	<-beside
	if err1 != nil || err2 != nil {
		t.Fatalf("client: %v; server: %v", err1, err2)
	}
	server.Fail("RTS", errors.New("test"))
	<-client.Done()
	client.Close()
	server.Close()
	if slices.Contains(observed, "aside") || len(observed) == 0 {
		t.Errorf("observed %q", observed)
	}
	var want []string
	for n := 1; n <= preceding; n++ {
		want = append(want, fmt.Sprint(n, "a"), fmt.Sprint(n, "b"))
	}
	got := slices.DeleteFunc(slices.Clone(taken), func(s string) bool { return s == "beside" })
	if preceding < 56 || !slices.Equal(got, want) || len(taken)-len(got) != 50 {
		t.Errorf("%d messages; taken %q", preceding, taken)
	}
}

// TestAsideOfAnotherName checks that other notes stay in the steps.
func TestAsideOfAnotherName(t *testing.T) {
	client, server := loopback(t, Options{})
	client.OnNote("aside", func(n Note) { t.Errorf("taken %q", n.Name) })
	go server.SendNote(t.Context(), Note{Name: "result", Data: []byte("10")})
	if n, err := client.RecvNote(t.Context(), "result"); err != nil || string(n.Data) != "10" {
		t.Errorf("%q, %v", n.Data, err)
	}
}

// TestWrongAside checks that a note that breaks the rules fails the message behind it, and
// sends nothing.
func TestWrongAside(t *testing.T) {
	client, server := loopback(t, Options{})
	server.Precede(func() []Note { return []Note{{Name: ""}} })
	if err := server.SendNote(t.Context(), Note{Name: "result"}); err == nil {
		t.Error("sent")
	}
	server.Precede(nil)
	if err := server.SendNote(t.Context(), Note{Name: "second"}); err != nil {
		t.Error(err)
	}
	if n, err := client.RecvNote(t.Context(), ""); err != nil || n.Name != "second" {
		t.Errorf("%q, %v", n.Name, err)
	}
}

// TestAsidesEnd checks that after OnNote with nil the peer's next aside is a message of the
// steps, and that those of this side stay asides.
func TestAsidesEnd(t *testing.T) {
	var mu sync.Mutex
	var observed []string
	client, server := loopback(t, Options{Observer: func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Sent {
			observed = append(observed, e.Name)
		}
	}})
	taken := 0
	server.OnNote("aside", func(Note) {
		taken++
		server.OnNote("aside", nil)
	})
	for _, data := range []string{"first", "second"} {
		if err := client.SendNote(t.Context(), Note{Name: "aside", Data: []byte(data)}); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := server.RecvNote(t.Context(), ""); err != nil || string(n.Data) != "second" || taken != 1 {
		t.Errorf("%d taken, then received %q, %v", taken, n.Data, err)
	}
	if err := server.SendNote(t.Context(), Note{Name: "aside"}); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(observed) != 2 { // those of the client
		t.Errorf("observed %q", observed)
	}
}
