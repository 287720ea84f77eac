//go:build !linux

package main

import "errors"

// datagramSocket exists on Linux.
type datagramSocket struct{ polls bool }

var errOnlyLinux = errors.New("the datagrams of the yardstick need Linux")

func choose(bool) error { return errOnlyLinux }

func newDatagramSocket(int) (*datagramSocket, error)       { return nil, errOnlyLinux }
func (*datagramSocket) port() (int, error)                 { return 0, errOnlyLinux }
func (*datagramSocket) connect(int) error                  { return errOnlyLinux }
func (*datagramSocket) Close() error                       { return nil }
func (*datagramSocket) Read([]byte) (int, error)           { return 0, errOnlyLinux }
func (*datagramSocket) Write([]byte) (int, error)          { return 0, errOnlyLinux }
func (*datagramSocket) send(memory []byte, n int) error    { return errOnlyLinux }
func (*datagramSocket) receive(memory []byte, n int) error { return errOnlyLinux }
