package systemd

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// TestNotify receives the states as systemd does: on a socket of the file system, and on an abstract one.
func TestNotify(t *testing.T) {
	reloading, err := Reloading()
	if err != nil {
		t.Fatal(err)
	}
	names := []string{filepath.Join(t.TempDir(), "notify")}
	if runtime.GOOS == "linux" {
		names = append(names, "@"+names[0])
	}
	for _, name := range names {
		socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer socket.Close()
		t.Setenv("NOTIFY_SOCKET", name)
		for _, state := range []string{Ready, Stopping(40 * time.Second), reloading} {
			if err := Notify(state); err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 256)
			if err := socket.SetReadDeadline(testkit.Deadline()); err != nil {
				t.Fatal(err)
			}
			n, err := socket.Read(buf)
			if err != nil || string(buf[:n]) != state {
				t.Errorf("%s: %q, %v, want %q", name, buf[:n], err, state)
			}
		}
	}
	if want := "STOPPING=1\nEXTEND_TIMEOUT_USEC=40000000"; Stopping(40*time.Second) != want {
		t.Errorf("%q, want %q", Stopping(40*time.Second), want)
	}
	if _, usec, _ := strings.Cut(reloading, "RELOADING=1\nMONOTONIC_USEC="); len(usec) < 6 || strings.Trim(usec, "0123456789") != "" {
		t.Errorf("%q", reloading)
	}
}

// TestNobodyReads: a full socket does not hold the service up.
func TestNobodyReads(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", name)
	testkit.Until(t, "report that cannot be sent", func() bool { return errors.Is(Notify(Ready), os.ErrDeadlineExceeded) })
}

// TestNotifyWithoutSystemd does nothing without the variable, and returns an error if nobody listens.
func TestNotifyWithoutSystemd(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := Notify(Ready); err != nil {
		t.Error(err)
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "nobody"))
	if err := Notify(Ready); err == nil || !strings.HasPrefix(err.Error(), "report READY=1 to systemd (NOTIFY_SOCKET=") {
		t.Error(err)
	}
}
