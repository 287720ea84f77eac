// A stream of datagrams that costs as little as it can: segments in datagrams of 60 KiB (GSO and GRO), a window, one copy
// into memory at the receiver, and no checksum. All system calls are raw and block, so that Go's scheduler costs nothing.

package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pollFor is how long an end of the polling echo polls before it sleeps: as long as the software device.
const pollFor = 50 * time.Microsecond

// silence ends a measurement: a datagram was lost, or the peer has ended.
const silence = 10 // seconds

// datagramSocket is a UDP socket of 127.0.0.1.
type datagramSocket struct {
	fd    int
	polls bool
}

// newDatagramSocket returns a socket that is bound to a port, or to any port with 0.
func newDatagramSocket(port int) (*datagramSocket, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	s := &datagramSocket{fd: fd}
	buffer := 4 * window * payload
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer) != nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, buffer)
	}
	timeout := unix.Timeval{Sec: silence}
	for _, set := range []func() error{
		func() error { return err },
		func() error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, buffer) },
		func() error { return unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout) },
		func() error { return unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1) },
		func() error { return unix.Bind(fd, local(port)) },
	} {
		if err := set(); err != nil {
			s.Close()
			return nil, fmt.Errorf("a UDP socket of port %d: %w", port, err)
		}
	}
	return s, nil
}

func local(port int) *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
}

func (s *datagramSocket) port() (int, error) {
	name, err := unix.Getsockname(s.fd)
	if err != nil {
		return 0, os.NewSyscallError("getsockname", err)
	}
	return name.(*unix.SockaddrInet4).Port, nil
}

func (s *datagramSocket) connect(port int) error {
	return os.NewSyscallError("connect", unix.Connect(s.fd, local(port)))
}

func (s *datagramSocket) Close() error { return unix.Close(s.fd) }

// Read receives a datagram.
func (s *datagramSocket) Read(b []byte) (int, error) {
	if s.polls {
		for began := time.Now(); time.Since(began) < pollFor; {
			if n, errno := s.read(b, unix.MSG_DONTWAIT); errno != unix.EAGAIN {
				return n, failure("recvfrom", errno)
			}
		}
	}
	n, errno := s.read(b, 0)
	if errno == unix.EAGAIN {
		return 0, fmt.Errorf("no datagram came for %d s", silence)
	}
	return n, failure("recvfrom", errno)
}

// read ends after silence, also if signals of Go's runtime interrupt the call again and again.
func (s *datagramSocket) read(b []byte, flags uintptr) (int, unix.Errno) {
	var interrupted time.Time
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(s.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), flags, 0, 0)
		switch {
		case errno != unix.EINTR:
			return int(n), errno
		case interrupted.IsZero():
			interrupted = time.Now()
		case time.Since(interrupted) > silence*time.Second:
			return 0, unix.EAGAIN
		}
	}
}

// Write sends a datagram.
func (s *datagramSocket) Write(b []byte) (int, error) {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), 0, 0, 0)
		if errno != unix.EINTR {
			return int(n), failure("sendto", errno)
		}
	}
}

// choose keeps this end on the first processor, or on the others. The kernel wakes an end on an idle processor, or on the
// peer's if none is idle. There both use the same nearest cache, and a stream needs less than half of the processor time, which
// two hosts cannot reach.
func choose(first bool) error {
	runtime.LockOSThread() // the setting is that of a thread
	var all, chosen unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return os.NewSyscallError("sched_getaffinity", err)
	}
	if all.Count() < 2 {
		return nil
	}
	number := 0
	for !all.IsSet(number) {
		number++
	}
	if first {
		chosen.Set(number)
	} else {
		chosen = all
		chosen.Clear(number)
	}
	return os.NewSyscallError("sched_setaffinity", unix.SchedSetaffinity(0, &chosen))
}

func failure(call string, errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return os.NewSyscallError(call, errno)
}

// send sends a number of segments from memory, again and again from its begin, until all are acknowledged.
func (s *datagramSocket) send(memory []byte, total int) error {
	if err := unix.SetsockoptInt(s.fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, segment); err != nil {
		return os.NewSyscallError("setsockopt UDP_SEGMENT", err)
	}
	var heads [perDatagram][head]byte
	var parts [2 * perDatagram]unix.Iovec
	message := unix.Msghdr{Iov: &parts[0]}
	var ack [8]byte
	at := 0
	for sent, acked := 0, 0; acked < total; {
		n := min(perDatagram, total-sent)
		if n == 0 || sent+n-acked > window {
			if _, err := s.Read(ack[:]); err != nil {
				return err
			}
			acked = int(binary.LittleEndian.Uint64(ack[:]))
			continue
		}
		for i := range n {
			binary.LittleEndian.PutUint64(heads[i][:], uint64(sent+i))
			parts[2*i].Base, parts[2*i+1].Base = &heads[i][0], &memory[at]
			parts[2*i].SetLen(head)
			parts[2*i+1].SetLen(payload)
			if at += payload; at == len(memory) {
				at = 0
			}
		}
		message.SetIovlen(2 * n)
		if _, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&message)), 0); errno == unix.EINTR {
			at = (at - n*payload + len(memory)) % len(memory)
			continue
		} else if errno != 0 {
			return failure("sendmsg", errno)
		}
		sent += n
	}
	return nil
}

// receive receives a number of segments into memory.
func (s *datagramSocket) receive(memory []byte, total int) error {
	var datagram [perDatagram * segment]byte
	var ack [8]byte
	at := 0
	for got, acked := 0, 0; got < total; {
		n, err := s.Read(datagram[:])
		if err != nil {
			return err
		}
		for from := 0; from < n; from += segment {
			if number := binary.LittleEndian.Uint64(datagram[from:]); number != uint64(got) {
				return fmt.Errorf("segment %d came in place of %d", number, got)
			}
			copy(memory[at:at+payload], datagram[from+head:])
			if at += payload; at == len(memory) {
				at = 0
			}
			got++
		}
		if got-acked >= ackEvery || got == total {
			binary.LittleEndian.PutUint64(ack[:], uint64(got))
			if _, err := s.Write(ack[:]); err != nil {
				return err
			}
			acked = got
		}
	}
	return nil
}
