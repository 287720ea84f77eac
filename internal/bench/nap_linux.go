// A sleep that is short.

package bench

import "golang.org/x/sys/unix"

// nap sleeps for as short as the kernel will, some 70 µs. time.Sleep would make a
// millisecond of it where no goroutine runs.
func nap() { _ = unix.Nanosleep(&unix.Timespec{Nsec: 20_000}, nil) }
