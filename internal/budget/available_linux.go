package budget

import (
	"bufio"
	"bytes"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Available returns how many bytes of memory the process may use: the lowest of MemAvailable, the memory
// limits of its cgroups, and RLIMIT_AS.
func Available() int64 {
	var limit unix.Rlimit
	space := uint64(unix.RLIM_INFINITY)
	if unix.Getrlimit(unix.RLIMIT_AS, &limit) == nil {
		space = limit.Cur
	}
	return least(os.DirFS("/"), space)
}

// least returns the lowest of the limits in the files of root and space, the limit of the address
// space, in bytes.
func least(root fs.FS, space uint64) int64 {
	found := int64(unknown)
	consider := func(n int64) {
		if n > 0 {
			found = min(found, n)
		}
	}
	if space <= 1<<62 { // otherwise there is no limit
		consider(int64(space))
	}
	consider(memAvailable(root))
	groups, _ := fs.ReadFile(root, "proc/self/cgroup") // a system without cgroups has none
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 {
			continue
		}
		switch controllers := fields[1]; {
		case controllers == "":
			consider(groupLimit(root, "sys/fs/cgroup", fields[2], "memory.max"))
			consider(groupLimit(root, "sys/fs/cgroup/unified", fields[2], "memory.max"))
		case strings.Contains(","+controllers+",", ",memory,"):
			consider(groupLimit(root, "sys/fs/cgroup/memory", fields[2], "memory.limit_in_bytes"))
		}
	}
	if found == unknown {
		return otherwise
	}
	return found
}

const (
	unknown   = 1<<63 - 1
	otherwise = 4 << 30 // if the system reports no limit
)

// groupLimit returns the lowest limit of a cgroup and of the groups above it, or 0 if none has a limit. In
// a container, group may be a path of the host, so the root of the mounted tree counts too.
func groupLimit(root fs.FS, mount, group, file string) int64 {
	least := int64(0)
	for group = path.Clean("/" + group); ; group = path.Dir(group) {
		if text, err := fs.ReadFile(root, path.Join(mount, group, file)); err == nil {
			n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64) // "max" is not a number
			if err == nil && n > 0 && (least == 0 || n < least) {
				least = n
			}
		}
		if group == "/" {
			return least
		}
	}
}

// memAvailable returns MemAvailable of /proc/meminfo in bytes, or 0 if the file does not have it.
func memAvailable(root fs.FS) int64 {
	file, err := root.Open("proc/meminfo")
	if err != nil {
		return 0
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var kib int64
		if rest, ok := strings.CutPrefix(lines.Text(), "MemAvailable:"); ok {
			kib, _ = strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
			return kib << 10
		}
	}
	return 0
}
