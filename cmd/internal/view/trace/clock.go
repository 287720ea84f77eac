// How far two clocks are apart, measured by messages between them.

package trace

import (
	"context"
	"fmt"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
)

// clockRounds is how often the client asks; the quickest answer counts.
const clockRounds = 16

const clockMethod = "NTP's formula over TCP after the job; the round with the least delay; the uncertainty is half that delay"

// A round is the four times of one question and its answer.
type round struct {
	asked, answered time.Time // by the client's clock
	received, sent  time.Time // by the server's
}

// delay is how long both messages took on the network.
func (r round) delay() time.Duration { return r.answered.Sub(r.asked) - r.sent.Sub(r.received) }

// offset is how far the server's clock is ahead. It is wrong by at most half the
// delay, which it is if one of the messages took no time at all.
func (r round) offset() time.Duration { return (r.received.Sub(r.asked) + r.sent.Sub(r.answered)) / 2 }

// measureClock asks the server for its time, several times.
func measureClock(ctx context.Context, tcp Notes, now func() time.Time) (Clock, error) {
	var best round
	for n := range clockRounds {
		r := round{asked: now()}
		if err := tcp.SendNote(ctx, oob.Note{Name: noteClock}); err != nil {
			return Clock{}, err
		}
		answer, err := tcp.RecvNote(ctx, noteClock)
		r.answered = now()
		if err != nil {
			return Clock{}, err
		}
		if r.received, r.sent, err = parseTimes(answer.Data); err != nil {
			return Clock{}, err
		}
		if r.sent.Before(r.received) || r.delay() < 0 {
			return Clock{}, errors.Errorf("by the server's clock the answer took %v, but it arrived after %v", r.sent.Sub(r.received), r.answered.Sub(r.asked))
		}
		if n == 0 || r.delay() < best.delay() {
			best = r
		}
	}
	// Half the delay, rounded up: the uncertainty must not be too small.
	return Clock{
		Reference: EndClient, Method: clockMethod, Rounds: clockRounds,
		Offset: best.offset(), Uncertainty: (best.delay() + 1) / 2,
	}, nil
}

// giveTime is the server's answer to one question.
func giveTime(ctx context.Context, tcp Notes, now func() time.Time) error {
	received := now()
	return tcp.SendNote(ctx, oob.Note{Name: noteClock, Data: fmt.Appendf(nil, "%d %d", received.UnixNano(), now().UnixNano())})
}

// parseTimes reads two times, in nanoseconds since 1970.
func parseTimes(data []byte) (received, sent time.Time, err error) {
	var a, b int64
	if n, err := fmt.Sscanf(string(data), "%d %d", &a, &b); n != 2 || err != nil || len(data) > 64 || a < 0 || b < 0 {
		return received, sent, errors.Errorf("the server's times %.64q are not valid", data)
	}
	return time.Unix(0, a).UTC(), time.Unix(0, b).UTC(), nil
}
