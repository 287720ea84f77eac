package run

import (
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rawverbs/rawverbs/internal/trace"
	"github.com/rawverbs/rawverbs/oob"
)

// offered returns a client's connection to a server that offers its events for a ladder, and the
// server's part of it.
func offered(t *testing.T) (*oob.Conn, *giveRecord) {
	t.Helper()
	near, far := net.Pipe()
	client, server := oob.NewConn(near, oob.Options{}), oob.NewConn(far, oob.Options{})
	t.Cleanup(func() {
		client.Close()
		server.Close()
	})
	g := &giveRecord{keeper: trace.NewKeeper(trace.EndServer, trace.KeptByServer)}
	g.log = slog.New(g.keeper)
	g.offer(server)
	return client, g
}

// TestFeedFollowsTheHello checks that a server sends its events only to a client whose hello asks
// for them, and only after its own hello, even if the client's note comes first.
func TestFeedFollowsTheHello(t *testing.T) {
	for _, record := range []string{"", trace.ParamValue} {
		synctest.Test(t, func(t *testing.T) {
			client, g := offered(t)
			done := make(chan struct{})
			go func() {
				defer close(done)
				hello, err := g.tcp.Hello(t.Context(), oob.Hello{Role: oob.RoleServer})
				if err != nil {
					t.Error(err)
					return
				}
				g.asked(hello)
				g.log.Info("RESET→INIT", "event", "qp.transition")
				if err := g.tcp.SendNote(t.Context(), oob.Note{Name: "result"}); err != nil {
					t.Error(err)
				}
				time.Sleep(10 * trace.FeedInterval)
				if err := g.tcp.SendNote(t.Context(), oob.Note{Name: "end"}); err != nil {
					t.Error(err)
				}
			}()
			if err := client.SendNote(t.Context(), oob.Note{Name: trace.LadderNote}); err != nil {
				t.Error(err)
			}
			if _, err := client.Hello(t.Context(), oob.Hello{Role: oob.RoleClient, Params: map[string]string{trace.Param: record}}); err != nil {
				t.Fatal(err)
			}
			events := map[string]int{}
			for last := ""; last != "end"; {
				n, err := client.RecvNote(t.Context(), "")
				if err != nil {
					t.Fatal(err)
				}
				last = n.Name
				events[last]++
			}
			if wanted := record != ""; (events[trace.LadderNote] > 0) != wanted || events["result"] != 1 {
				t.Errorf("the hello has record=%q, the notes are %v", record, events)
			}
			<-done
		})
	}
}

// TestSecondWish checks that a client cannot send notes that pass by the server's steps: the
// second note is a message of the steps.
func TestSecondWish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, g := offered(t)
		go func() {
			for range 100 {
				_ = client.SendNote(t.Context(), oob.Note{Name: trace.LadderNote}) // the server closes
			}
		}()
		if n, err := g.tcp.RecvNote(t.Context(), ""); err != nil || n.Name != trace.LadderNote {
			t.Errorf("%q, %v", n.Name, err)
		}
		g.tcp.Close()
	})
}
