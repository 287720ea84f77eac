package event

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestSample counts in simulated time what is logged and what is left out.
func TestSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Sample
		most := 0 // records that one attribute said were left out
		try := func(n int) (logged, omitted int) {
			for range n {
				if attrs, ok := s.next(); ok {
					logged++
					for _, a := range attrs {
						if a.Key != "omitted" {
							t.Errorf("the attribute %v", a)
						}
						omitted += int(a.Value.Int64())
						most = max(most, int(a.Value.Int64()))
					}
				}
			}
			return logged, omitted
		}
		check := func(when string, n, wantLogged, wantOmitted int) {
			t.Helper()
			if logged, omitted := try(n); logged != wantLogged || omitted != wantOmitted {
				t.Errorf("%s: %d logged, %d left out before; want %d, %d", when, logged, omitted, wantLogged, wantOmitted)
			}
		}
		check("at once", 1000, sampleBurst, 0)
		time.Sleep(sampleEvery - time.Nanosecond)
		check("a moment early", 10, 0, 0)
		time.Sleep(time.Nanosecond)
		check("in time", 5, 1, 1000-sampleBurst+10)
		time.Sleep(time.Second)
		check("after a second", 100, 4, 4)

		// A flood of 2,700 a second for a minute.
		logged, omitted := 0, 0
		most = 0
		for range 60 * 2700 {
			time.Sleep(time.Second / 2700)
			l, o := try(1)
			logged, omitted = logged+l, omitted+o
		}
		if logged < 238 || logged > 241 || most > 2700/4+1+96 {
			t.Errorf("in a minute %d were logged, and up to %d left out between two", logged, most)
		}
		time.Sleep(sampleBurst * sampleEvery)
		check("a burst again", 1, 1, 96+60*2700-logged-omitted)
		check("without anything left out", sampleBurst-1, sampleBurst-1, 0)
		check("and no more", 1, 0, 0)
	})
}

// TestStrangersDoNotFillTheLog has a thousand strangers fail, one more a second later, and a thousand known peers.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Sample
		fail := func(stranger bool, n int) string {
			var text strings.Builder
			for range n {
				s.Failed(stranger, func(omitted ...slog.Attr) {
					ClientFailed.Log(slog.New(slog.NewTextHandler(&text, nil)), "failed", omitted...)
				})
			}
			return text.String()
		}
		logged := strings.Count(fail(true, 1000), "\n")
		if logged == 0 || logged > 50 {
			t.Errorf("%d of 1,000 lines", logged)
		}
		if n := strings.Count(fail(false, 1000), "\n"); n != 1000 {
			t.Errorf("%d of 1,000 peers that were known", n)
		}
		time.Sleep(time.Second)
		if got, want := fail(true, 1), fmt.Sprintf(" omitted=%d\n", 1000-logged); !strings.HasSuffix(got, want) {
			t.Errorf("%s; want %s", got, want)
		}
	})
}
