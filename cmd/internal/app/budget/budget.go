// Package budget finds how much memory a server's clients may use, and gives back to the system what they have
// freed.
package budget

import (
	"fmt"
	"math"
	"strings"

	"github.com/pkg/errors"
)

const (
	// ownMemory is what a server may need in addition to its clients, in bytes.
	ownMemory = 64 << 20
	// fewest is what clients need together at least: two of them with short messages.
	fewest = 8 << 20
	// usual is what clients get at most unless --max-memory says otherwise.
	usual = 2 << 30
)

// limit is a limit of the process's memory. Sizes are in bytes.
type limit struct {
	name  string
	most  int64
	inUse int64                   // of most, now
	own   int64                   // what the server may need more for itself
	each  int64                   // what each byte of a client takes at most; 0: the process may pass the limit
	raise func(most int64) string // what to do for a limit of most
}

// room returns how many bytes clients may have of the limit.
func (l *limit) room() int64 { return max(0, l.most-l.inUse-l.own) }

// ForClients returns how many bytes of memory a server's clients may use together: chosen, or if that is 0, half of what is left,
// and at most 2 GiB. from says where the number comes from. The server itself needs extra bytes more than one without options. The
// error says that too little is left.
func ForClients(chosen, extra int64) (bytes int64, from string, err error) {
	return forClients(chosen, extra, limits())
}

func forClients(chosen, extra int64, all []limit) (bytes int64, from string, err error) {
	for i := range all {
		all[i].own += extra * max(1, all[i].each)
	}
	if chosen == 0 {
		bytes, from = usual, "the default's maximum"
		for _, l := range all {
			each := max(2, l.each)
			if err := l.check(fewest, each); err != nil {
				return 0, "", err
			}
			if share := l.room() / each; share < bytes {
				bytes, from = share, fmt.Sprintf("1/%d of what is left of %s", each, l.name)
			}
		}
		return bytes, from, nil
	}
	for _, l := range all {
		if l.each > 0 {
			if err := l.check(chosen, l.each); err != nil {
				return 0, "", err
			}
		}
	}
	return chosen, "--max-memory", nil
}

// check returns an error if the room is less than each times the bytes that clients need.
func (l *limit) check(need, each int64) error {
	if need <= l.room()/each {
		return nil
	}
	hint := func(need int64) string { return l.raise(l.inUse + l.own + need*each) }
	var try []string
	if need <= math.MaxInt64/2/each { // otherwise no limit is high enough
		try = append(try, hint(need))
	}
	if l.each > 0 && l.room()/each >= fewest {
		try = append(try, fmt.Sprintf("--max-memory %dM", l.room()/each>>20))
	}
	if len(try) == 0 {
		try = append(try, hint(fewest))
	}
	return errors.Errorf("clients need %d MiB of memory, and %d MiB are left for them: %s is %d MiB, the process uses %d MiB of it, and the server may need %d MiB more for itself; try: %s",
		up(need), l.room()/each>>20, l.name, l.most>>20, up(l.inUse), up(l.own), strings.Join(try, ", or "))
}

// up returns bytes as MiB, rounded up.
func up(bytes int64) int64 { return (bytes-1)>>20 + 1 }
