package main

import (
	"strings"
	"testing"
)

// TestLostSegment checks that a lost datagram is an error, and not a good figure.
func TestLostSegment(t *testing.T) {
	var ends [2]*datagramSocket
	for i := range ends {
		s, err := newDatagramSocket(0)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		ends[i] = s
	}
	port, err := ends[1].port()
	if err != nil {
		t.Fatal(err)
	}
	if err := ends[0].connect(port); err != nil {
		t.Fatal(err)
	}
	second := make([]byte, segment)
	second[0] = 1 // the number
	if _, err := ends[0].Write(second); err != nil {
		t.Fatal(err)
	}
	if err := ends[1].receive(make([]byte, payload), 2); err == nil || !strings.Contains(err.Error(), "segment 1 came in place of 0") {
		t.Error(err)
	}
}
