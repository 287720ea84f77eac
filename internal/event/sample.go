// Logging a part of what strangers can cause at any rate.

package event

import (
	"log/slog"
	"sync"
	"time"
)

// A Sample lets sampleBurst records through, and then one per sampleEvery.
const (
	sampleBurst = 32
	sampleEvery = 250 * time.Millisecond
)

// Sample chooses which failures of strangers are logged. The zero value is ready for use. Several goroutines may call
// its method at once.
type Sample struct {
	mu      sync.Mutex
	whole   time.Time // when the whole burst is available again
	omitted int       // since the last record that was logged
}

// Failed calls log for a peer that failed. Of strangers, who can do so at any rate, it logs some: omitted, which belongs
// to the record, says how many were left out before it, if any were.
func (s *Sample) Failed(stranger bool, log func(omitted ...slog.Attr)) {
	if !stranger {
		log()
	} else if omitted, ok := s.next(); ok {
		log(omitted...)
	}
}

// next reports whether to log the next stranger, and with which attributes.
func (s *Sample) next() (attrs []slog.Attr, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.whole.Before(now) {
		s.whole = now
	}
	if s.whole.Sub(now) > (sampleBurst-1)*sampleEvery {
		s.omitted++
		return nil, false
	}
	s.whole = s.whole.Add(sampleEvery)
	if s.omitted > 0 {
		attrs = []slog.Attr{slog.Int("omitted", s.omitted)}
		s.omitted = 0
	}
	return attrs, true
}
