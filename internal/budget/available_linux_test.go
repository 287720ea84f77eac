package budget

import (
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"
)

func TestLeast(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	meminfo := file("MemTotal:       16000000 kB\nMemAvailable:    8000000 kB\n")
	for _, c := range []struct {
		name  string
		files fstest.MapFS
		space uint64
		want  int64
	}{
		{"nothing", fstest.MapFS{}, unix.RLIM_INFINITY, otherwise},
		{"machine", fstest.MapFS{"proc/meminfo": meminfo}, unix.RLIM_INFINITY, 8000000 << 10},
		{"address space", fstest.MapFS{"proc/meminfo": meminfo}, 1 << 30, 1 << 30},
		{"cgroup 2", fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/memory.max": file("536870912\n"),
			"sys/fs/cgroup/a/b/memory.max": file("max\n")}, unix.RLIM_INFINITY, 512 << 20},
		{"cgroup 1", fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("4:cpu,memory:/a\n0::/\n"),
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": file("268435456\n"), "sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n")},
			unix.RLIM_INFINITY, 256 << 20},
		{"container", fstest.MapFS{"proc/self/cgroup": file("0::/outside/a\n"), "sys/fs/cgroup/memory.max": file("1048576\n")}, unix.RLIM_INFINITY, 1 << 20},
	} {
		if got := least(c.files, c.space); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	if n := Available(); n < 64<<20 {
		t.Errorf("this machine has %d bytes", n)
	}
}
