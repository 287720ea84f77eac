// Package systemd reports to systemd what a service does, as sd_notify(3) describes.
package systemd

import (
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// patience is how long a report may take. systemd takes it at once.
const patience = time.Second

// Ready is the state of a service that serves.
const Ready = "READY=1"

// Stopping returns the state of a service that ends within a time. systemd waits so long, even if its TimeoutStopSec is less.
func Stopping(within time.Duration) string {
	return fmt.Sprintf("STOPPING=1\nEXTEND_TIMEOUT_USEC=%d", within.Microseconds())
}

// Reloading returns the state of a service that reads its files again. Ready follows it.
func Reloading() (string, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return "", errors.WithMessage(err, "clock_gettime")
	}
	return fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", now.Nano()/int64(time.Microsecond)), nil
}

// Notify reports a state. It does nothing if systemd does not ask for it with the variable NOTIFY_SOCKET.
func Notify(state string) error {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err == nil {
		_ = conn.SetWriteDeadline(time.Now().Add(patience)) // nobody may read
		_, err = conn.Write([]byte(state))
		_ = conn.Close()
	}
	first, _, _ := strings.Cut(state, "\n")
	return errors.WithMessagef(err, "report %s to systemd (NOTIFY_SOCKET=%s)", first, name)
}
