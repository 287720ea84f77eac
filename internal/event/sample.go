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

// Sample chooses which records of a kind are logged. The zero value is ready for use. Several goroutines may call
// its method at once.
type Sample struct {
	mu      sync.Mutex
	whole   time.Time // when the whole burst is available again
	omitted int       // since the last record that was logged
}

// Next reports whether to log the next record. The attributes, which belong to that record, say how many records
// were left out before it, if any were.
func (s *Sample) Next() (attrs []slog.Attr, ok bool) {
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
