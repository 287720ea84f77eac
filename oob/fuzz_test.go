package oob

// Fuzz tests. For any bytes, a decoder does not panic and accepts only one encoding of a
// value. A Conn ends with an error and reads no more than the limits allow.

import (
	"bytes"
	"context"
	"io"
	"net"
	"reflect"
	"sync/atomic"
	"testing"
	"time"
)

func FuzzDecodeHello(f *testing.F)     { fuzzCodec(f, codecs[0]) }
func FuzzDecodeEndpoints(f *testing.F) { fuzzCodec(f, codecs[1]) }
func FuzzDecodeRegions(f *testing.F)   { fuzzCodec(f, codecs[2]) }
func FuzzDecodeBarrier(f *testing.F)   { fuzzCodec(f, codecs[3]) }
func FuzzDecodeNote(f *testing.F)      { fuzzCodec(f, codecs[4]) }

// fuzzCodec checks that a decoded frame encodes to the same bytes, and that those bytes
// decode to the same value.
func fuzzCodec(f *testing.F, c codec) {
	header := c.bytes(f)[:HeaderSize]
	f.Add(c.bytes(f)[HeaderSize:])
	f.Add([]byte{})
	f.Add([]byte{1, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, body []byte) {
		frame := withLength(append(bytes.Clone(header), body...))
		value, err := decode(frame)
		if err != nil {
			return
		}
		again, err := c.encode(nil, value)
		if err != nil {
			t.Fatalf("decoded %+v, which cannot be encoded: %v", value, err)
		}
		if !bytes.Equal(again, frame) {
			t.Fatalf("decoded %+v from % x, which encodes to % x", value, frame, again)
		}
		back, err := decode(again)
		if err != nil || !reflect.DeepEqual(back, value) {
			t.Fatalf("decoded %+v, then %+v, %v", value, back, err)
		}
	})
}

// FuzzDecodeError also gets frames of other versions and texts that AppendError changes.
// The first encoding may change the value; a second encoding must not.
func FuzzDecodeError(f *testing.F) {
	golden := codecs[5].bytes(f)
	f.Add(golden)
	f.Add(append([]byte("RVO\n\x07\xff\x00\x00\x00\x00\x00\x07"), 0, 0, 4, ' ', 'h', 'i', ' '))
	f.Fuzz(func(t *testing.T, frame []byte) {
		v, err := decode(frame)
		first, is := v.(*PeerError)
		if err != nil || !is {
			return
		}
		second, err := decode(AppendError(nil, first))
		if err != nil {
			t.Fatalf("%+v cannot be sent on: %v", first, err)
		}
		third, err := decode(AppendError(nil, second.(*PeerError)))
		if err != nil || !reflect.DeepEqual(third, second) {
			t.Fatalf("%+v became %+v, %v", second, third, err)
		}
	})
}

func FuzzDecodeHeader(f *testing.F) {
	for _, c := range codecs {
		f.Add(c.bytes(f)[:HeaderSize])
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		h, err := decodeHeader(frame)
		if err == nil && (h.Length > maxNoteBody || h.Length > h.Type.maxBody()) {
			t.Fatalf("accepted %+v", h)
		}
	})
}

// FuzzAppendHello checks that a Hello that can be encoded decodes to the same value.
func FuzzAppendHello(f *testing.F) {
	f.Add(uint8(1), "write", "rdma_client", "size", "4096")
	f.Fuzz(func(t *testing.T, role uint8, job, program, key, value string) {
		h := Hello{Role: Role(role), Job: job, Program: program, Params: map[string]string{key: value, "z": "z"}}
		frame, err := appendHello(nil, h)
		if err != nil {
			return
		}
		back, err := decode(frame)
		if err != nil || !reflect.DeepEqual(back, h) {
			t.Fatalf("sent %+v, got %+v, %v", h, back, err)
		}
	})
}

// FuzzConn runs a session against a peer that sends arbitrary bytes.
func FuzzConn(f *testing.F) {
	f.Add(sessionBytes(f))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Add([]byte("SSH-2.0-OpenSSH_9.2\r\n"))
	f.Add(codecs[5].bytes(f))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, sent []byte) {
		peer := &cannedPeer{rest: sent}
		c := NewConn(peer, Options{Observer: func(Event) {}})
		err := session(context.Background(), c, RoleClient)
		if err == nil {
			_, err = c.RecvNote(context.Background(), "")
		}
		if err := c.Close(); err != nil { // after Close, only this goroutine uses peer
			t.Fatal(err)
		}
		if err == nil && len(peer.rest) == len(sent) {
			t.Fatal("nothing was read, but Err is nil")
		}
		if peer.asked > maxNoteBody {
			t.Fatalf("a buffer of %d bytes was allocated", peer.asked)
		}
	})
}

// cannedPeer sends fixed bytes. It closes when it has heard nothing for a while: if it closed at once, the
// other end would fail at its next message. It discards the bytes that it receives.
type cannedPeer struct {
	rest  []byte
	asked int          // the size of the largest Read
	heard atomic.Int64 // how many messages have come
}

func (p *cannedPeer) Read(b []byte) (int, error) {
	p.asked = max(p.asked, len(b))
	if len(p.rest) == 0 {
		for heard := int64(-1); heard != p.heard.Load(); time.Sleep(time.Millisecond) {
			heard = p.heard.Load()
		}
		return 0, io.EOF
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

func (p *cannedPeer) Write(b []byte) (int, error)      { p.heard.Add(1); return len(b), nil }
func (p *cannedPeer) Close() error                     { return nil }
func (p *cannedPeer) LocalAddr() net.Addr              { return nil }
func (p *cannedPeer) RemoteAddr() net.Addr             { return nil }
func (p *cannedPeer) SetDeadline(time.Time) error      { return nil }
func (p *cannedPeer) SetReadDeadline(time.Time) error  { return nil }
func (p *cannedPeer) SetWriteDeadline(time.Time) error { return nil }
