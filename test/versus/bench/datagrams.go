// What the datagrams of the yardstick have in common with those of the software device.

package main

const (
	payload = 4096 // bytes of data per segment, as a packet's at path MTU 4096
	head    = 16   // bytes before the data; they have the segment's number
	segment = head + payload

	perDatagram = 15 // segments per datagram: more do not fit into 64 KiB

	window   = 1 << 20 / payload // segments that are not acknowledged
	ackEvery = window / 4
)
