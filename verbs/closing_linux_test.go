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

// TestHugePages: they go back to the system at Close, and a slice stays good. Where the
// system has none to give, the attempt leaves memory that is as good.
func TestHugePages(t *testing.T) {
	d, _ := newPaperDevice()
	pd := must[*PD](t)(d.AllocPD())
	for range 10 {
		free := freeHugePages(t)
		mr, err := pd.AllocMR(hugePageSize+1, AccessLocalWrite, HugePages())
		if err != nil {
			if !errors.Is(err, syscall.ENOMEM) || free > 1 {
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
		if now := freeHugePages(t); now != free-2 {
			t.Fatalf("%d huge pages were free, then %d", free, now)
		}
		if err := mr.Close(); err != nil {
			t.Fatal(err)
		}
		if now := freeHugePages(t); now != free {
			t.Fatalf("%d huge pages were free, and %d after Close", free, now)
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

// freeHugePages is how many the system could give now.
func freeHugePages(t *testing.T) int {
	t.Helper()
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	of := func(name string) int {
		_, rest, _ := strings.Cut(string(info), name+":")
		line, _, _ := strings.Cut(rest, "\n")
		n, _ := strconv.Atoi(strings.TrimSpace(line))
		return n
	}
	return of("HugePages_Free") - of("HugePages_Rsvd")
}
