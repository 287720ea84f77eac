package trace

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
)

// pipe is both ends of an exchange.
func pipe(t *testing.T) (client, server *oob.Conn) {
	a, b := net.Pipe()
	client, server = oob.NewConn(a, oob.Options{}), oob.NewConn(b, oob.Options{})
	t.Cleanup(func() {
		client.Close()
		server.Close()
	})
	return client, server
}

// recorderAhead is a server's whose clock is ahead.
func recorderAhead(by time.Duration, limit int) *Recorder {
	k := NewRecorder(EndServer, limit)
	k.wall = k.wall.Add(by)
	return k
}

// Both parts are merged on the client's clock, with any difference of the server's.
func TestFetch(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Hour, -56 * 365 * 24 * time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			ck, sk := NewRecorder(EndClient, KeptByClient), recorderAhead(ahead, KeptByServer)
			c, s := slog.New(ck).With("who", "client"), slog.New(sk).With("who", "server/3")
			const rounds = 2000 // several notes' worth of them
			for i := range rounds {
				c.Info("ask", "event", "ask", "number", i)
				s.Info("answer", "event", "answer", "number", i, "padding", strings.Repeat("x", 100))
			}
			client, server := pipe(t)
			given := make(chan error, 1)
			go func() { given <- Give(testkit.Context(t), server, sk, Part{Program: "p", Host: "h", Device: "d"}) }()
			fetched, err := Fetch(testkit.Context(t), client, ck)
			if err != nil {
				t.Fatal(err)
			}
			if err := <-given; err != nil {
				t.Fatal(err)
			}
			rec, err := NewRecord(Header{Job: "j"}, ck, fetched)
			if err != nil {
				t.Fatal(err)
			}
			if want := (Part{Present: true, Program: "p", Host: "h", Device: "d", Events: rounds}); rec.Server != want {
				t.Errorf("%+v, want %+v", rec.Server, want)
			}
			if off := rec.Clock.Offset - ahead; off.Abs() > rec.Clock.Uncertainty {
				t.Errorf("offset %v, is %v; uncertainty %v", rec.Clock.Offset, ahead, rec.Clock.Uncertainty)
			}
			// An answer was sent after its question and before the next: by the
			// record's clock that may be wrong by the uncertainty, and by no more.
			var asked, answered []time.Time
			for _, e := range rec.Events {
				if e.End == EndClient {
					asked = append(asked, e.Time)
				} else {
					answered = append(answered, e.Time)
					if e.Who != "server/3" {
						t.Fatalf("%+v", e)
					}
				}
			}
			if len(asked) != rounds || len(answered) != rounds {
				t.Fatalf("%d questions, %d answers", len(asked), len(answered))
			}
			slack := rec.Clock.Uncertainty
			for i := range rounds {
				if answered[i].Before(asked[i].Add(-slack)) || i+1 < rounds && answered[i].After(asked[i+1].Add(slack)) {
					t.Fatalf("answer %d at %v, asked at %v, uncertainty %v", i, answered[i], asked[i], slack)
				}
			}
			var file bytes.Buffer
			rec.WriteTo(&file)
			if _, err := ReadRecord(&file); err != nil {
				t.Error(err)
			}
		})
	}
}

// The error of the estimate stays within its uncertainty, even if the delays of both directions
// differ. The time is simulated.
func TestClockBound(t *testing.T) {
	for _, way := range []struct{ there, back time.Duration }{
		{0, 0}, {time.Millisecond, time.Millisecond}, {time.Millisecond, 0}, {0, time.Millisecond}, {7 * time.Millisecond, time.Microsecond}, {3, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			const ahead = 12345678 * time.Nanosecond
			n := 0
			clock, err := measureClock(t.Context(), &fakeNotes{
				send: func(oob.Note) error { n++; time.Sleep(way.there + time.Duration(n%5)*time.Microsecond); return nil },
				recv: func() (oob.Note, error) {
					heard := time.Now().Add(ahead)
					time.Sleep(time.Millisecond) // the server thinks
					sent := time.Now().Add(ahead)
					time.Sleep(way.back)
					return oob.Note{Name: noteClock, Data: fmt.Appendf(nil, "%d %d", heard.UnixNano(), sent.UnixNano())}, nil
				},
			}, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			if off := (clock.Offset - ahead).Abs(); off > clock.Uncertainty || clock.Uncertainty != (way.there+way.back+1)/2 || clock.Rounds != n || n != clockRounds {
				t.Errorf("%v: offset %v off by %v, uncertainty %v, %d rounds", way, clock.Offset, off, clock.Uncertainty, n)
			}
		})
	}
}

// fakeNotes is a peer made of functions.
type fakeNotes struct {
	send func(oob.Note) error
	recv func() (oob.Note, error)
}

func (f *fakeNotes) SendNote(ctx context.Context, n oob.Note) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return f.send(n)
}

func (f *fakeNotes) RecvNote(ctx context.Context, name string) (oob.Note, error) {
	if ctx.Err() != nil {
		return oob.Note{}, ctx.Err()
	}
	n, err := f.recv()
	if err == nil && name != "" && n.Name != name { // as a Conn does
		err = fmt.Errorf("waits for the note %q and the peer sent %q", name, n.Name)
	}
	return n, err
}

// A server that sends wrong notes is an error, within bounds.
func TestFetchFromAHostileServer(t *testing.T) {
	sound := func(asked oob.Note) []oob.Note {
		now := time.Now().UnixNano()
		return []oob.Note{{Name: noteClock, Data: fmt.Appendf(nil, "%d %d", now, now)}}
	}
	clock := func(format string, args ...any) func(oob.Note) []oob.Note {
		return func(oob.Note) []oob.Note {
			return []oob.Note{{Name: noteClock, Data: fmt.Appendf(nil, format, args...)}}
		}
	}
	part := func(text string) func(oob.Note) []oob.Note {
		return func(asked oob.Note) []oob.Note {
			if asked.Name == noteClock {
				return sound(asked)
			}
			return []oob.Note{{Name: noteRecordEnd, Data: []byte(text)}}
		}
	}
	endless := func(part oob.Note) func(oob.Note) []oob.Note {
		return func(asked oob.Note) []oob.Note {
			if asked.Name == noteClock {
				return sound(asked)
			}
			return []oob.Note{part} // and again: see below
		}
	}
	const one = `{"present":true,"events":1,"dropped":0}` + "\n"
	event := strings.Replace(goodEvent, `"end":"client"`, `"end":"server"`, 1)
	for name, test := range map[string]struct {
		answer func(oob.Note) []oob.Note
		want   string
	}{
		"no times":              {clock("soon"), `the server's times "soon" are not valid`},
		"one time":              {clock("5"), "are not valid"},
		"times before 1970":     {clock("-5 -4"), "are not valid"},
		"times too large":       {clock("99999999999999999999 5"), "are not valid"},
		"sent before received":  {clock("9 5"), "the server's clock"},
		"thought for a century": {clock("0 %d", int64(9e18)), "the server's clock"},
		"another note":          {func(oob.Note) []oob.Note { return []oob.Note{{Name: "gossip"}} }, `"gossip"`},
		"another note midway":   {endless(oob.Note{Name: "gossip"}), `the note "gossip" in the middle`},
		"endless":               {endless(oob.Note{Name: noteRecord, Data: make([]byte, pieceSize)}), "more than"},
		"endless and empty":     {endless(oob.Note{Name: noteRecord}), "more than"},
		"nothing":               {part(""), "the server's part: not JSON"},
		"garbage":               {part("\x00\xff"), "the server's part: not JSON"},
		"no part after all":     {part(`{"present":false,"why":"not today"}` + "\n"), "not today"},
		"dropped below 0":       {part(`{"present":true,"dropped":-1}` + "\n"), "-1"},
		"fewer events":          {part(one), "has 0 events, but announces 1"},
		"more events":           {part(one + event + event), "has 2 events, but announces 1"},
		"garbage for an event":  {part(one + "garbage\n"), "line 2 of the server's part"},
		"deep":                  {part(one + `{"attrs":` + strings.Repeat(`{"a":`, 200_000)), "deep"},
	} {
		t.Run(name, func(t *testing.T) {
			var pending []oob.Note
			var asked oob.Note
			received := 0
			fetched, err := Fetch(testkit.Context(t), &fakeNotes{
				send: func(n oob.Note) error { asked, pending = n, test.answer(n); return nil },
				recv: func() (oob.Note, error) {
					if len(pending) == 0 {
						pending = test.answer(asked)
					}
					n := pending[0]
					pending = pending[1:]
					received += len(n.Data)
					return n, nil
				},
			}, NewRecorder(EndClient, KeptByClient))
			if err == nil || !strings.Contains(err.Error(), test.want) || fetched != nil {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if received > maxPart+2*pieceSize {
				t.Errorf("%d bytes were taken", received)
			}
		})
	}
}

// The end of an event from the server is set to the server, and its year must be plausible.
func TestFetchDoesNotBelieveAll(t *testing.T) {
	f := &Fetched{Clock: Clock{Offset: time.Hour}}
	line := goodEvent // it says that it is the client's
	if err := f.parse([]byte(`{"present":true,"events":1}` + "\n" + line)); err != nil {
		t.Fatal(err)
	}
	if e := f.Events[0]; e.End != EndServer || !e.Time.Equal(time.Date(2026, 1, 2, 2, 4, 5, 6, time.UTC)) {
		t.Errorf("%+v", e)
	}
	f = &Fetched{Clock: Clock{Offset: -250 * 365 * 24 * time.Hour}}
	if err := f.parse([]byte(`{"present":true,"events":1}` + "\n" + line)); err == nil || !strings.Contains(err.Error(), "the year 2275") {
		t.Errorf("%v", err)
	}
}

// The wait for a silent server ends with ctx.
func TestFetchFromASilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := pipe(t)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		_, err := Fetch(ctx, client, NewRecorder(EndClient, KeptByClient))
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 5*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// A client can ask the server for the time, a limited number of times, and for its part, once.
func TestGiveToAHostileClient(t *testing.T) {
	k := NewRecorder(EndServer, KeptByServer)
	slog.New(k).Info("m", "event", "e")
	for name, test := range map[string]struct {
		ask  []oob.Note
		want string
	}{
		"endless questions": {repeat(oob.Note{Name: noteClock}, 10*maxQuestions), "the client asked for the time"},
		"no question":       {[]oob.Note{{Name: "give me all"}}, `the note "give me all", which is not a question`},
		"goes away":         {nil, "gone"},
	} {
		sent := 0
		err := Give(testkit.Context(t), &fakeNotes{
			send: func(n oob.Note) error { sent++; return nil },
			recv: func() (oob.Note, error) {
				if len(test.ask) == 0 {
					return oob.Note{}, errors.New("gone")
				}
				n := test.ask[0]
				test.ask = test.ask[1:]
				return n, nil
			},
		}, k, Part{})
		if err == nil || !strings.Contains(err.Error(), test.want) || sent > maxQuestions {
			t.Errorf("%s: %v; %d notes sent", name, err, sent)
		}
	}
}

func repeat(n oob.Note, times int) (notes []oob.Note) {
	for range times {
		notes = append(notes, n)
	}
	return notes
}

// A client accepts the part of a full Recorder.
func TestFullHalfIsTaken(t *testing.T) {
	sk := NewRecorder(EndServer, KeptByServer)
	log := slog.New(sk)
	for range 2 * KeptByServer / 1000 {
		log.Info(strings.Repeat("\x01", 200), "event", "e") // six bytes each in JSON
	}
	client, server := pipe(t)
	go Give(testkit.Context(t), server, sk, Part{})
	fetched, err := Fetch(testkit.Context(t), client, NewRecorder(EndClient, KeptByClient))
	if err != nil || fetched.Part.Dropped == 0 {
		t.Errorf("%v, %+v", err, fetched)
	}
}
