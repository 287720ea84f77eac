//go:build cabi

// Package cabi runs programs in C and Python that use libibverbs on the software device, through
// ./rawverbs. `make test-c` runs these tests. The programs run as an ordinary user, in a network
// namespace that has only loopback: there, no other program has a port that they need. Where the
// system forbids namespaces, as a container does by default, the programs use the host's loopback.
package cabi

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// bin is a folder with the programs and libraries of this repository, which every user may read.
var bin string

// built are the files that `make all` builds.
var built = []string{"rawverbs", "librawverbs.so", "librawverbs-core.so", "rdma_client", "rdma_server"}

// namespaced is set in the process that runs the tests.
const namespaced = "RAWVERBS_TEST_NAMESPACE"

// TestMain starts this program again in a namespace, because a running Go program cannot move all
// its threads.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(namespaced) == "" {
		os.Exit(inNamespace())
	}
	status, err := runTests(m)
	if errors.Is(err, errNoNamespace) {
		os.Exit(noNamespace)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cabi:", err)
		status = 1
	}
	os.Exit(status)
}

// noNamespace is the exit status of a process that may not set up its namespace. Ubuntu gives
// ordinary users such namespaces.
const noNamespace = 125

var errNoNamespace = errors.New("no network namespace")

// inNamespace runs this program in a network namespace and returns its exit status. An ordinary
// user also gets a user namespace, in which he may set up the network. If the system forbids
// namespaces, this program runs without.
func inNamespace() int {
	attempts := []*syscall.SysProcAttr{{Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWNET}}
	if os.Getuid() != 0 {
		attempts[0].Cloneflags |= syscall.CLONE_NEWUSER
		attempts[0].UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attempts[0].GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	attempts = append(attempts, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL})
	for _, attributes := range attempts {
		cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", namespaced, attributes.Cloneflags))
		cmd.SysProcAttr = attributes
		err := cmd.Start()
		if err == nil {
			_ = cmd.Wait() // the exit status says it
			if status := cmd.ProcessState.ExitCode(); status != noNamespace {
				return status
			}
			err = syscall.EPERM
		}
		fmt.Fprintf(os.Stderr, "cabi: no network namespace: %v; the programs use this host's loopback\n", err)
	}
	return 1
}

// hostUsable checks that the software device can have its UDP port on the host's loopback.
func hostUsable() error {
	const port = 4791
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	pid := os.Getpid() // an address that no other program has: devices take theirs at random
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0xff, byte(pid >> 8), byte(pid | 1)}}); err != nil {
		return fmt.Errorf("bind UDP port %d of loopback: %w (rdma_rxe has it on all addresses), and this process may not make "+
			"a network namespace; try: root with CAP_SYS_ADMIN and CAP_NET_ADMIN (docker run --cap-add SYS_ADMIN --cap-add NET_ADMIN)", port, err)
	}
	return nil
}

func runTests(m *testing.M) (int, error) {
	usable := hostUsable
	if os.Getenv(namespaced) != "0" {
		usable = loopbackUp
	}
	err := usable()
	if err != nil {
		return 0, err
	}
	if bin, err = os.MkdirTemp("", "rawverbs-cabi"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(bin)
	if err := os.Chmod(bin, 0o755); err != nil {
		return 0, err
	}
	for _, name := range built {
		if err := copyFile(filepath.Join(bin, name), filepath.Join("..", "..", "..", name)); err != nil {
			return 0, errors.WithMessage(err, "try: make all")
		}
	}
	return m.Run(), nil
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// loopbackUp sets up a new namespace.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != unix.EPERM {
		return err
	}
	return errNoNamespace
}

// ordinary is the user of the programs if the tests run as root.
const ordinary = 65534

// asOrdinary returns the attributes of a program's process. It is the first of a process group.
func asOrdinary() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		return a
	}
	a.Credential = &syscall.Credential{Uid: ordinary, Gid: ordinary}
	if user, alone := outside("uid_map"); alone {
		// An ordinary user, who is root in our namespace. In a namespace of its own, the program is
		// that user again.
		a.Credential = nil
		if nests() {
			again(a, user)
		}
	}
	return a
}

// again makes a program run as the ordinary user outside of our user namespace.
func again(a *syscall.SysProcAttr, user int) {
	group, _ := outside("gid_map")
	a.Cloneflags = syscall.CLONE_NEWUSER
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: user, HostID: 0, Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: group, HostID: 0, Size: 1}}
}

// nests reports whether a user namespace may have another in it. Where that is forbidden, the programs
// run as we do.
var nests = sync.OnceValue(func() bool {
	user, _ := outside("uid_map")
	cmd := exec.Command("true")
	cmd.SysProcAttr = new(syscall.SysProcAttr)
	again(cmd.SysProcAttr, user)
	err := cmd.Run()
	if err != nil {
		fmt.Fprintf(os.Stderr, "cabi: no namespace for an ordinary user: %v; the programs run as root of ours\n", err)
	}
	return err == nil
})

// outside returns who root is outside of our user namespace, and whether nobody else is in it.
func outside(table string) (id int, alone bool) {
	var inside, size int
	row, err := os.ReadFile("/proc/self/" + table)
	if err == nil {
		_, err = fmt.Sscan(string(row), &inside, &id, &size)
	}
	return id, err == nil && size == 1
}
