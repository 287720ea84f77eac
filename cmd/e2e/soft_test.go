//go:build !rdma

package e2e

import (
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/rawverbs/rawverbs/verbs"
)

// TestDefaultDevice checks that the default device is the system's first, or soft0, and that
// the programs log the choice.
func TestDefaultDevice(t *testing.T) {
	noLeak(t)
	devices, _ := verbs.Devices() // libibverbs may list no device
	first := devices[0].Name      // soft0 is the last
	why := "the first device"
	if first == "soft0" {
		why = "no RDMA device; using soft0"
	}
	takeDefaultPort(t)
	s := start(t, "rdma_server", "--json")
	s.event("device.opened", "msg", "open device "+first+" (", "why", why)
	s.event("server.listening")
	c := start(t, "rdma_client", "--json", "127.0.0.1")
	c.event("device.opened", "msg", "open device "+first+" (", "why", why)
	c.succeeds()
	s.signal(os.Interrupt)
	s.succeeds()
}

// TestNamedDeviceIsNotReplaced checks that no other device replaces a named device.
func TestNamedDeviceIsNotReplaced(t *testing.T) {
	noLeak(t)
	const absent = "rxe77"
	for _, args := range [][]string{{"rdma_server", absent}, {"rdma_client", "127.0.0.1", absent}} {
		p := start(t, args[0], args[1:]...)
		p.fails(1, absent, "no device of that name", "try: one of those that exist: ", device)
	}
}

// TestNames opens soft:ADDRESS. Only one process at a time can have the address.
func TestNames(t *testing.T) {
	noLeak(t)
	server, client := ownAddress(1), ownAddress(2)
	s := start(t, "rdma_server", "--json", "soft:"+server, "0")
	s.event("device.opened", "msg", "open device soft:"+server+" (", "why", "asked for")
	_, port, err := net.SplitHostPort(s.event("server.listening").str("address"))
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, "rdma_client", "--json", server, "soft:"+client, port)
	c.succeeds()
	if gid := c.find("gid.chosen").str("gid"); gid != "::ffff:"+client {
		t.Errorf("the client's GID is %s, want that of %s", gid, client)
	}
	testBadInput(t, []badInput{
		{"address in use", "server soft:" + server + " 0", 1, []string{"soft:" + server, "4791", "address already in use", "try: another address"}},
		{"foreign address", "server soft:192.0.2.1", 1, []string{"192.0.2.1", "4791", "try: an address that this host has"}},
		{"no interface", "client 127.0.0.1 soft:nosuch0", 1, []string{"soft:nosuch0", "the interfaces of this host: ", "lo"}},
		{"nothing after the colon", "server soft:", 1, []string{"soft:", "the interfaces of this host: "}},
		{"no such name", "server soft1", 1, []string{"soft1", "no device of that name", device}},
	})
	s.signal(os.Interrupt)
	s.succeeds()
}

// ownAddress returns a loopback address that depends on the process ID and that soft0 never
// uses. n is 1 to 3.
func ownAddress(n int) string {
	return fmt.Sprintf("127.255.%d.%d", os.Getpid()/64%255, os.Getpid()%64*4+n)
}

// TestFileForPacketsInNoFolder checks that a run fails at its start if the file of --pcap
// cannot be created. (A kernel's device is refused before that: rdma_test.go.)
func TestFileForPacketsInNoFolder(t *testing.T) {
	noLeak(t)
	for _, args := range [][]string{{"rdma_server", device}, {"rdma_client", "127.0.0.1", device}} {
		p := start(t, args[0], append(args[1:], "--pcap", "/nosuch/file")...)
		p.fails(1, "/nosuch/file", "no such file", "try: a file in a folder")
	}
}
