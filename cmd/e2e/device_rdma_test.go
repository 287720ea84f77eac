//go:build rdma

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/verbs"
)

// The device under test, and its addresses.
var (
	device     = os.Getenv("RDMA_TEST_DEVICE")
	ipv4, ipv6 string
	gidIndex4  string
	baseline   string // the device's resources with none of our programs running
)

// emulated is true for tests that usually run in an emulated machine, which is slow.
const emulated = true

// sideBySide is the number of clients that a server serves at once. It is small because
// programs start slowly in an emulated machine.
const sideBySide = 16

func setUp() (cleanUp func(), err error) {
	if device == "" {
		return nil, fmt.Errorf("RDMA_TEST_DEVICE is not set; make test-rxe sets it")
	}
	if binaries == "" {
		binaries = filepath.Join("..", "..")
	}
	if err := readAddresses(); err != nil {
		return nil, err
	}
	baseline, err = resources()
	return func() {}, err
}

func readAddresses() error {
	dev, err := verbs.Open(device)
	if err != nil {
		return err
	}
	defer dev.Close()
	table, err := dev.QueryGIDTable()
	if err != nil {
		return err
	}
	ipv4, ipv6 = "", ""
	for _, e := range table {
		addr := e.GID.Addr()
		switch {
		case e.Type != verbs.GIDTypeRoCEv2 || addr.IsLinkLocalUnicast():
		case addr.Is4() && ipv4 == "":
			ipv4, gidIndex4 = addr.String(), fmt.Sprint(e.Index)
		case addr.Is6() && ipv6 == "":
			ipv6 = addr.String()
		}
	}
	if ipv4 == "" || ipv6 == "" {
		return fmt.Errorf("%s lacks a RoCE v2 GID of an IPv4 (%q) or global IPv6 address (%q)", device, ipv4, ipv6)
	}
	return nil
}

// awaitAddresses waits until the device has its addresses again.
func awaitAddresses(t *testing.T) {
	t.Helper()
	var err error
	testkit.Until(t, "addresses of "+device, func() bool { err = readAddresses(); return err == nil }, func() string { return err.Error() })
}

// isGID4 reports whether gid is the device's GID for IPv4 peers.
func isGID4(gid string) bool { return strings.TrimPrefix(gid, "::ffff:") == ipv4 }

// resources counts the device's objects of all processes: "pd 1 cq 1 qp 1 …".
func resources() (string, error) {
	out, err := exec.Command("rdma", "resource", "show", device).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("rdma resource show %s: %w: %s", device, err, out)
	}
	_, counts, _ := strings.Cut(strings.TrimSpace(string(out)), device+": ")
	return counts, nil
}

// noLeak checks, after all programs of the test have ended, that the device has the same
// resources as before. A test calls noLeak first.
func noLeak(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { expectResources(t, baseline) })
}

// holdings are the resources that an idle server may have: only the open device.
type holdings struct{}

func (holdings) note(*server) {}

func (holdings) expect(t *testing.T, _ *server) {
	t.Helper()
	expectResources(t, strings.Replace(baseline, "ctx 0", "ctx 1", 1))
}

func expectResources(t *testing.T, want string) {
	t.Helper()
	var got string
	testkit.Until(t, "return of the device's resources", func() bool {
		var err error
		if got, err = resources(); err != nil {
			t.Fatal(err)
		}
		return got == want
	}, func() string { return fmt.Sprintf("resources of %s: %s; want %s", device, got, want) })
}
