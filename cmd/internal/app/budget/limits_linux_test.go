package budget

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"
)

const mib = 1 << 20

// file has lines of text.
func file(lines ...any) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(fmt.Sprintln(lines...))}
}

var (
	meminfo = &fstest.MapFile{Data: []byte("MemTotal:       16000000 kB\nMemAvailable:    2097152 kB\n")}
	status  = &fstest.MapFile{Data: []byte("VmPeak:\t 1720000 kB\nVmSize:\t 1638400 kB\nThreads:\t7\n")}
	// Both have 300 MiB of cached files. In cached1, a third of that is the group's own, and the rest is of groups below it.
	cached1 = &fstest.MapFile{Data: []byte("inactive_file 104857600\nactive_file 0\ntotal_inactive_file 209715200\ntotal_active_file 104857600\n")}
	cached2 = &fstest.MapFile{Data: []byte("anon 1\nfile 3\ninactive_file 104857600\nactive_file 157286400\nslab_reclaimable 52428800\n")}
)

// TestLimits finds what is left for clients of each limit.
func TestLimits(t *testing.T) {
	const unlimited = unix.RLIM_INFINITY
	for _, c := range []struct {
		name  string
		files fstest.MapFS
		space uint64
		want  int64 // in MiB
	}{
		{"nothing", fstest.MapFS{}, unlimited, usual / mib},
		{"machine", fstest.MapFS{"proc/meminfo": meminfo}, unlimited, (2048 - 64) / 2},
		{"address space", fstest.MapFS{"proc/meminfo": meminfo, "proc/self/status": status}, 3 << 30,
			(3072 - 1600 - 3*64 - (int64(runtime.GOMAXPROCS(0))+9-7)*72) / 3},
		{"cgroup 2", fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("0::/a/b"),
			"sys/fs/cgroup/a/memory.max": file(512 * mib), "sys/fs/cgroup/a/memory.current": file(348 * mib), "sys/fs/cgroup/a/memory.stat": cached2,
			"sys/fs/cgroup/a/b/memory.max": file("max"), "sys/fs/cgroup/a/b/memory.current": file(48 * mib)}, unlimited, (512 - 48 - 64) / 2},
		{"cgroup 1", fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": &fstest.MapFile{Data: []byte("4:cpu,memory:/a\n0::/\n")},
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": file(256 * mib), "sys/fs/cgroup/memory/a/memory.usage_in_bytes": file(332 * mib), "sys/fs/cgroup/memory/a/memory.stat": cached1,
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file(int64(9223372036854771712)), "sys/fs/cgroup/memory/memory.usage_in_bytes": file(int64(4096 * mib))},
			unlimited, (256 - 32 - 64) / 2},
		{"container", fstest.MapFS{"proc/self/cgroup": file("0::/outside/a"), "sys/fs/cgroup/memory.max": file(128 * mib), "sys/fs/cgroup/memory.current": file(16 * mib)},
			unlimited, (128 - 16 - 64) / 2},
		{"unified", fstest.MapFS{"proc/self/cgroup": file("0::/a"), "sys/fs/cgroup/unified/a/memory.max": file(128 * mib), "sys/fs/cgroup/unified/a/memory.current": file(16 * mib)},
			unlimited, (128 - 16 - 64) / 2},
	} {
		if got, _, err := forClients(0, 0, limitsIn(c.files, c.space)); err != nil || got/mib != c.want {
			t.Errorf("%s: %d MiB, %v; want %d", c.name, got/mib, err, c.want)
		}
	}
	if n, _, err := ForClients(0, 0); err != nil || n < fewest {
		t.Errorf("this machine has %d bytes, %v", n, err)
	}
}

// TestFrom checks where the number comes from.
func TestFrom(t *testing.T) {
	rich := limit{name: "the host", most: 24 << 30}
	poor := limit{name: "the group", most: 1 << 30, each: 1}
	for want, c := range map[string]struct {
		chosen, bytes int64
		all           []limit
	}{
		"the default's maximum":            {0, 2 << 30, []limit{rich}},
		"1/2 of what is left of the group": {0, 512 << 20, []limit{rich, poor}},
		"--max-memory":                     {700 << 20, 700 << 20, []limit{rich, poor}},
	} {
		if bytes, from, err := forClients(c.chosen, 0, c.all); bytes != c.bytes || from != want || err != nil {
			t.Errorf("%d MiB from %q, %v; want %d MiB from %q", bytes/mib, from, err, c.bytes/mib, want)
		}
	}
}

// TestTooLittle refuses what does not fit, with the figures.
func TestTooLittle(t *testing.T) {
	space := func(most int64) limit {
		return limit{name: "the address space", most: most, inUse: 1600 * mib, own: 400 * mib, each: 2, raise: func(most int64) string { return fmt.Sprint("a limit of ", most/mib) }}
	}
	group := limit{name: "the group", most: 512 * mib, inUse: 48 * mib, own: 64 * mib, each: 1, raise: func(most int64) string { return fmt.Sprint("a group of ", most/mib) }}
	host := limit{name: "the host", most: 96 * mib, own: 64 * mib, raise: func(int64) string { return "less elsewhere" }}
	tight := host
	tight.most = 79 * mib
	for _, c := range []struct {
		chosen int64
		all    []limit
		want   int64
		err    string
	}{
		{0, []limit{space(2100 * mib), group, host}, 16 * mib, ""},
		{0, []limit{space(2016 * mib), group}, 8 * mib, ""},
		{0, []limit{group, space(2015 * mib)}, 0, "clients need 8 MiB of memory, and 7 MiB are left for them: the address space is 2015 MiB, the process uses 1600 MiB of it, and the server may need 400 MiB more for itself; try: a limit of 2016"},
		{0, []limit{space(1 * mib)}, 0, "0 MiB are left for them"},
		{0, []limit{tight}, 0, "less elsewhere"},
		{mib, []limit{tight}, mib, ""}, // it may be more than is free now
		{50 * mib, []limit{space(2100 * mib), host}, 50 * mib, ""},
		{51 * mib, []limit{space(2100 * mib), host}, 0, "clients need 51 MiB of memory, and 50 MiB are left for them: the address space is 2100 MiB, the process uses 1600 MiB of it, and the server may need 400 MiB more for itself; try: a limit of 2102, or --max-memory 50M"},
		{400 * mib, []limit{group}, 400 * mib, ""},
		{401 * mib, []limit{group}, 0, "try: a group of 513, or --max-memory 400M"},
		{1 << 60, []limit{group}, 0, "or --max-memory 400M"},
		{math.MaxInt64, []limit{space(2100 * mib)}, 0, "clients need 8796093022208 MiB of memory, and 50 MiB are left for them: the address space is 2100 MiB, the process uses 1600 MiB of it, and the server may need 400 MiB more for itself; try: --max-memory 50M"},
		{math.MaxInt64, []limit{space(2001 * mib)}, 0, "; try: a limit of 2016"},
	} {
		got, _, err := forClients(c.chosen, 0, slices.Clone(c.all))
		if got != c.want || err == nil != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("chosen %d MiB: %d MiB, %v; want %d, %q", c.chosen/mib, got/mib, err, c.want/mib, c.err)
		}
	}
}

// TestExtra checks that what the server needs for an option, in addition, is not for clients.
func TestExtra(t *testing.T) {
	all := func() []limit {
		return []limit{{most: 2100 * mib, inUse: 1600 * mib, own: 400 * mib, each: 2, raise: func(int64) string { return "" }}}
	}
	for _, c := range []struct{ chosen, extra, want int64 }{{0, 10, 40}, {0, 42, 8}, {0, 43, 0}, {40, 10, 40}, {41, 10, 0}} {
		if got, _, err := forClients(c.chosen*mib, c.extra*mib, all()); got/mib != c.want || err == nil != (c.want > 0) {
			t.Errorf("chosen %d, extra %d: %d MiB, %v; want %d", c.chosen, c.extra, got/mib, err, c.want)
		}
	}
}
