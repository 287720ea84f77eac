package event

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/oob"
)

// TestArrival logs nothing of a stranger, and all of a client, in order.
func TestArrival(t *testing.T) {
	var out strings.Builder
	log := slog.New(slog.NewTextHandler(&out, nil))
	observe := Arrival(log, func() { ClientAccepted.Log(log, "arrived") })
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	observe(oob.Event{Time: at, Sent: true, Type: oob.TypeHello})
	if out.Len() > 0 {
		t.Errorf("of a stranger: %s", &out)
	}
	observe(oob.Event{Time: at.Add(time.Second), Type: oob.TypeHello})
	observe(oob.Event{Time: at.Add(2 * time.Second), Sent: true, Type: oob.TypeBarrier, Name: "in RTS"})
	var got []string
	for line := range strings.Lines(out.String()) {
		_, text, _ := strings.Cut(line, "msg=")
		text, _, _ = strings.Cut(text, " event=")
		got = append(got, text)
	}
	want := `arrived "sent hello" "received hello" "sent barrier \"in RTS\""`
	if strings.Join(got, " ") != want || !strings.Contains(out.String(), `time=2026-01-02T03:04:05.000Z level=INFO msg="sent hello"`) {
		t.Errorf("got %s\nwant %s, each with its own time", &out, want)
	}
}
