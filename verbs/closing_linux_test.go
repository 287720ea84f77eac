package verbs

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/pkg/errors"
)

// TestHugePages checks that huge pages return to the system at Close, and that a slice of the memory
// can still be used. Other processes may use huge pages at the same time.
func TestHugePages(t *testing.T) {
	d, _ := newPaperDevice()
	pd := must[*PD](t)(d.AllocPD())
	for range 10 {
		free, before := freeHugePages(t), ownHugePages(t)
		mr, err := pd.AllocMRWith(hugePageSize+1, AccessLocalWrite, MROptions{HugePages: true})
		if err != nil {
			if !errors.Is(err, syscall.ENOMEM) || min(free, freeHugePages(t)) > 1 {
				t.Fatalf("with %d huge pages: %v", free, err)
			}
			runtime.GC()
			continue
		}
		b := mr.Bytes()
		if mr.Len() != 2*hugePageSize || mr.Addr()%hugePageSize != 0 || !bytes.Equal(b, make([]byte, len(b))) {
			t.Fatalf("got %v", mr)
		}
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		if now := ownHugePages(t); now != before+2 {
			t.Fatalf("%d huge pages were in use, then %d", before, now)
		}
		if err := mr.Close(); err != nil {
			t.Fatal(err)
		}
		if now := ownHugePages(t); now != before {
			t.Fatalf("%d huge pages were in use, and %d after Close", before, now)
		}
		if !bytes.Equal(b, make([]byte, len(b))) {
			t.Fatal("a late reader does not see zeros")
		}
		b[0] = 2
		if mr.Bytes()[0] != 2 {
			t.Fatal("Bytes are others now")
		}
	}
}

// freeHugePages returns the number of huge pages that the system has free.
func freeHugePages(t *testing.T) int {
	t.Helper()
	return number(t, "/proc/meminfo", "HugePages_Free") - number(t, "/proc/meminfo", "HugePages_Rsvd")
}

// ownHugePages returns the number of huge pages that this process uses.
func ownHugePages(t *testing.T) int {
	t.Helper()
	return number(t, "/proc/self/status", "HugetlbPages") << 10 / hugePageSize
}

// number reads the number behind a name in a file of /proc.
func number(t *testing.T, file, name string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), name+":")
	line, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(line), " kB"))
	return n
}
