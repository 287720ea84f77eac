package testkit

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// inOwnNetwork is set in the environment of the process in the namespace.
const inOwnNetwork = "RAWVERBS_TEST_OWN_NETWORK"

// OwnNetwork runs the calling test again in a new network namespace, with further variables in its environment. In the
// namespace it returns true. Outside it returns false; the test is done then.
func OwnNetwork(t testing.TB, variables ...string) bool {
	if os.Getenv(inOwnNetwork) != "" {
		return true
	}
	c := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	c.Env = append(os.Environ(), append(variables, inOwnNetwork+"=1")...)
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Getuid() != 0 {
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	switch out, err := c.CombinedOutput(); {
	case c.ProcessState == nil:
		t.Fatalf("no network namespace can be made: %v; try: run as root", err)
	case err != nil:
		t.Fatalf("in a new network namespace: %v\n%s", err, out)
	}
	return false
}
