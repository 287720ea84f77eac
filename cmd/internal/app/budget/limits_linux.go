// The limits of a process's memory on Linux: free memory, cgroups, and the size of the address space.

package budget

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// What the process takes of its address space. Go takes addresses for its heap, and gives none back, so the heap
// comes to have holes: under clients of all sizes that came and went for a minute, it had up to 2.7 times the addresses
// of the clients' memory and the server's. Go has a thread for each processor, and others for calls that block. The C
// library reserves addresses for each thread.
const (
	perByte      = 3
	perThread    = (8 + 64) << 20 // its stack, and its arena of malloc
	otherThreads = 9
)

func limits() []limit {
	var space unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_AS, &space) != nil {
		space.Cur = unix.RLIM_INFINITY
	}
	return limitsIn(os.DirFS("/"), space.Cur)
}

// limitsIn returns the limits in the files of root, and space, the limit of the address space.
func limitsIn(root fs.FS, space uint64) (all []limit) {
	if space <= 1<<62 { // otherwise there is no limit
		inUse, _ := numberAfter(root, "proc/self/status", "VmSize:")
		threads, _ := numberAfter(root, "proc/self/status", "Threads:")
		more := max(0, int64(runtime.GOMAXPROCS(0)+otherThreads)-threads)
		all = append(all, limit{
			name: "the address space of a process (RLIMIT_AS)", most: int64(space), inUse: inUse << 10, own: perByte*ownMemory + more*perThread, each: perByte,
			raise: func(most int64) string { // another start may have another thread, and a heap of one more arena (64 MiB)
				return fmt.Sprintf("ulimit -v %d, or unlimited", up(most+2*perThread)<<10)
			},
		})
	}
	if free, ok := numberAfter(root, "proc/meminfo", "MemAvailable:"); ok {
		all = append(all, limit{name: "the free memory of this host (MemAvailable)", most: free << 10, own: ownMemory,
			raise: func(int64) string { return "to end other programs, or --max-memory, which may be more than that" }})
	}
	groups, _ := fs.ReadFile(root, "proc/self/cgroup") // a system without cgroups has none
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 {
			continue
		}
		switch controllers := fields[1]; {
		case controllers == "":
			all = append(all, groupLimits(root, "sys/fs/cgroup", fields[2], &version2)...)
			all = append(all, groupLimits(root, "sys/fs/cgroup/unified", fields[2], &version2)...)
		case strings.Contains(","+controllers+",", ",memory,"):
			all = append(all, groupLimits(root, "sys/fs/cgroup/memory", fields[2], &version1)...)
		}
	}
	return all
}

// groupFiles are the names of a cgroup's files, and of the lines in memory.stat, which count the groups below too.
type groupFiles struct {
	limit, usage string
	cached       []string
}

var (
	version1 = groupFiles{"memory.limit_in_bytes", "memory.usage_in_bytes", []string{"total_inactive_file", "total_active_file"}}
	version2 = groupFiles{"memory.max", "memory.current", []string{"inactive_file", "active_file", "slab_reclaimable"}}
)

// groupLimits returns the limits of a cgroup and of the groups above it. In a container, group may be a path of the
// host, so the root of the mounted tree counts too.
func groupLimits(root fs.FS, mount, group string, files *groupFiles) (all []limit) {
	for group = path.Clean("/" + group); ; group = path.Dir(group) {
		dir := path.Join(mount, group)
		most, limited := numberAfter(root, path.Join(dir, files.limit), "") // "max" is not a number
		if used, ok := numberAfter(root, path.Join(dir, files.usage), ""); ok && limited {
			// The kernel drops cached files before it lets a group pass its limit.
			for _, name := range files.cached {
				cached, _ := numberAfter(root, path.Join(dir, "memory.stat"), name+" ")
				used -= cached
			}
			all = append(all, limit{name: "/" + path.Join(dir, files.limit), most: most, inUse: max(0, used), own: ownMemory, each: 1,
				raise: func(most int64) string { return fmt.Sprintf("a limit of %d MiB", up(most)) }})
		}
		if group == "/" {
			return all
		}
	}
}

// numberAfter returns the number after a prefix, in the first line of a file that begins with the prefix.
func numberAfter(root fs.FS, file, prefix string) (int64, bool) {
	f, err := root.Open(file)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), prefix); ok {
			if words := strings.Fields(rest); len(words) > 0 {
				n, err := strconv.ParseInt(words[0], 10, 64)
				return n, err == nil
			}
		}
	}
	return 0, false
}
