// A short sleep.

package measure

import "golang.org/x/sys/unix"

// nap sleeps for the shortest time that the kernel allows, about 70 µs. time.Sleep would take a
// millisecond if no goroutine runs.
func nap() { _ = unix.Nanosleep(&unix.Timespec{Nsec: 20_000}, nil) }
