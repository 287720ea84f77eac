//go:build !rdma && linux && netns

// A server in a cgroup with little memory. The tests make cgroups, and need the rights of root for that.

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// TestNetnsLittleCgroup is TestLittleAddressSpace with a cgroup, of which another program uses a part. The kernel
// kills a process in a cgroup that is full.
func TestNetnsLittleCgroup(t *testing.T) {
	noLeak(t)
	manyHellos(t, func() *server { return serveBy(t, grouped(t, 320<<20, 160<<20)) })
	file := "memory.max"
	if version1() {
		file = "memory.limit_in_bytes"
	}
	startBy(t, grouped(t, 160<<20, 80<<20), "rdma_server", device, "0").fails(1, "clients need 8 MiB of memory", file+" is 160 MiB", "try: a limit of ")
	s := serveBy(t, grouped(t, 192<<20, 80<<20))
	s.client(t).succeeds()
	s.stops()
}

// version1 reports whether this host's cgroups of memory are those of version 1.
func version1() bool {
	_, err := os.Stat("/sys/fs/cgroup/memory/memory.limit_in_bytes")
	return err == nil
}

// grouped is the prefix of a command that runs in a new cgroup with so many bytes, of which another program uses
// some.
func grouped(t *testing.T, bytes, others int64) []string {
	t.Helper()
	dir, limit := "/sys/fs/cgroup", "memory.max"
	switch _, err := os.Stat(filepath.Join(dir, "cgroup.controllers")); {
	case version1():
		dir, limit = filepath.Join(dir, "memory", ownGroup(t)), "memory.limit_in_bytes"
	case err != nil: // as in the test machine
		if err := unix.Mount("cgroup2", dir, "cgroup2", 0, ""); err != nil {
			t.Fatalf("mount the cgroups: %v; try: run as root", err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(dir, 0); err != nil {
				t.Errorf("unmount the cgroups: %v", err)
			}
		})
	}
	if limit == "memory.max" {
		limitMemory(t, filepath.Join(dir, "cgroup.subtree_control"))
	}
	group, err := os.MkdirTemp(dir, "rawverbs-e2e-")
	if err != nil {
		t.Fatalf("%v; try: run as root", err)
	}
	used, err := os.CreateTemp("/dev/shm", "rawverbs-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	used.Close()
	t.Cleanup(func() {
		if err := os.Remove(used.Name()); err != nil {
			t.Error(err)
		}
		testkit.Until(t, "end of the cgroup", func() bool { err = os.Remove(group); return err == nil }, func() string { return err.Error() })
	})
	if err := os.WriteFile(filepath.Join(group, limit), fmt.Append(nil, bytes), 0); err != nil {
		t.Fatal(err)
	}
	return []string{"sh", "-c", fmt.Sprintf(`set -e; echo $$ >%s/cgroup.procs; head -c %d /dev/zero >%s; exec "$@"`, group, others, used.Name()), "sh"}
}

// limitMemory makes the groups below a group have limits of memory until the end of the test, if they have none.
func limitMemory(t *testing.T, control string) {
	t.Helper()
	have, err := os.ReadFile(control)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(strings.Fields(string(have)), "memory") {
		return
	}
	if err := os.WriteFile(control, []byte("+memory"), 0); err != nil {
		t.Fatalf("%v; try: run as root", err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(control, []byte("-memory"), 0); err != nil {
			t.Error(err)
		}
	})
}

// ownGroup returns the cgroup of memory, of version 1, in which this process is.
func ownGroup(t *testing.T) string {
	t.Helper()
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(groups)) {
		if fields := strings.SplitN(strings.TrimSpace(line), ":", 3); len(fields) == 3 && strings.Contains(","+fields[1]+",", ",memory,") {
			return fields[2]
		}
	}
	t.Fatal("no cgroup of memory")
	return ""
}
