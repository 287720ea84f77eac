package oob

// The bodies of the native protocol: per message a function that appends it and a method of cursor
// that reads it. Append makes a whole frame with its header; cursor has the body. Both sides check the
// same rules (decodeMessage calls check), so each value has exactly one encoding. Integers are big-endian. A text is
// a length of one byte (two bytes for an error's message), then the text's bytes.

import (
	"encoding/binary"
	"fmt"

	"github.com/pkg/errors"
)

// endpointSize is the length of one endpoint in a body.
const endpointSize = 36

// appendHello appends h to dst as a frame. If h breaks a rule of [Hello] or has more
// than 4 KiB of parameters, appendHello returns dst unchanged and an error.
func appendHello(dst []byte, h Hello) ([]byte, error) {
	if err := h.check(); err != nil {
		return dst, unsendable(TypeHello, err)
	}
	dst, start := beginFrame(dst, TypeHello)
	dst = append(dst, byte(h.Role))
	dst = appendText(dst, h.Job)
	dst = appendText(dst, h.Program)
	dst = append(dst, byte(len(h.Params)))
	for _, key := range h.keys() {
		dst = appendText(dst, key)
		dst = appendText(dst, h.Params[key])
	}
	return endFrame(dst, start)
}

func (c *cursor) hello() Hello {
	h := Hello{Role: Role(c.u8()), Job: c.text(), Program: c.text()}
	count := int(c.u8())
	if count > MaxParams {
		c.fail("%d parameters, the limit is %d", count, MaxParams)
		return h
	}
	if count > 0 {
		h.Params = make(map[string]string, count)
	}
	last := ""
	for i := range count {
		key, value := c.text(), c.text()
		// Sorted keys give each Hello one encoding and exclude duplicates.
		if i > 0 && key <= last && !c.short {
			c.fail("parameter key %+q does not follow %+q; the keys must ascend", key, last)
		}
		h.Params[key], last = value, key
	}
	return h
}

// appendEndpoints appends list to dst as a frame. If the list is empty or too long, or an
// [Endpoint] breaks a rule, appendEndpoints returns dst unchanged and an error.
func appendEndpoints(dst []byte, list []Endpoint) ([]byte, error) {
	if err := checkEndpoints(list); err != nil {
		return dst, unsendable(TypeEndpoints, err)
	}
	dst, start := beginFrame(dst, TypeEndpoints)
	dst = append(dst, byte(len(list)))
	for _, e := range list {
		dst = append(dst, e.Index, byte(e.QPType))
		dst = binary.BigEndian.AppendUint16(dst, e.LID)
		dst = binary.BigEndian.AppendUint32(dst, e.QPN)
		dst = binary.BigEndian.AppendUint32(dst, e.PSN)
		dst = binary.BigEndian.AppendUint32(dst, e.QKey)
		dst = append(dst, e.GID[:]...)
		dst = binary.BigEndian.AppendUint16(dst, uint16(e.MTU))
		dst = append(dst, e.InitiatorDepth, e.ResponderResources)
	}
	return endFrame(dst, start)
}

func (c *cursor) endpoints() []Endpoint {
	count := int(c.u8())
	if count > MaxEndpoints {
		c.fail("%d endpoints, the limit is %d", count, MaxEndpoints)
		return nil
	}
	if want := count * endpointSize; !c.short && len(c.rest) != want {
		c.fail("%d endpoints need %d bytes, the body has %d", count, want, len(c.rest))
		return nil
	}
	list := make([]Endpoint, count)
	for i := range list {
		e := &list[i]
		e.Index, e.QPType = c.u8(), QPType(c.u8())
		e.LID = c.u16()
		e.QPN, e.PSN, e.QKey = c.u32(), c.u32(), c.u32()
		copy(e.GID[:], c.take(len(e.GID)))
		e.MTU = int(c.u16())
		e.InitiatorDepth, e.ResponderResources = c.u8(), c.u8()
	}
	return list
}

// appendRegions appends list, which may be empty, to dst as a frame. If the list or a
// [Region] breaks a rule, appendRegions returns dst unchanged and an error.
func appendRegions(dst []byte, list []Region) ([]byte, error) {
	if err := checkRegions(list); err != nil {
		return dst, unsendable(TypeRegions, err)
	}
	dst, start := beginFrame(dst, TypeRegions)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(list)))
	for _, r := range list {
		dst = binary.BigEndian.AppendUint64(dst, r.Addr)
		dst = binary.BigEndian.AppendUint64(dst, r.Length)
		dst = binary.BigEndian.AppendUint32(dst, r.RKey)
		dst = appendText(dst, r.Name)
	}
	return endFrame(dst, start)
}

func (c *cursor) regions() (list []Region) {
	count := int(c.u16())
	if count > MaxRegions {
		c.fail("%d regions, the limit is %d", count, MaxRegions)
		return nil
	}
	for range count {
		r := Region{Addr: c.u64(), Length: c.u64(), RKey: c.u32(), Name: c.text()}
		if c.short {
			break
		}
		list = append(list, r)
	}
	return list
}

// appendBarrier appends a barrier called name to dst as a frame. If name is empty, longer
// than MaxName bytes or unprintable, appendBarrier returns dst unchanged and an error.
func appendBarrier(dst []byte, name string) ([]byte, error) {
	if err := checkText("name", name, 1, MaxName); err != nil {
		return dst, unsendable(TypeBarrier, err)
	}
	dst, start := beginFrame(dst, TypeBarrier)
	return endFrame(appendText(dst, name), start)
}

// appendNote appends n to dst as a frame. If n breaks a rule of [Note], appendNote
// returns dst unchanged and an error.
func appendNote(dst []byte, n Note) ([]byte, error) {
	if err := n.check(); err != nil {
		return dst, unsendable(TypeNote, err)
	}
	dst, start := beginFrame(dst, TypeNote)
	dst = appendText(dst, n.Name)
	return endFrame(append(dst, n.Data...), start)
}

func (c *cursor) note() Note {
	n := Note{Name: c.text()}
	n.Data = c.take(len(c.rest)) // the data is the rest of the body
	return n
}

// AppendError appends an error message with e's Step and Message to dst as a frame. It
// shortens texts that are too long and replaces unprintable characters, so that the
// report of a failure never fails.
func AppendError(dst []byte, e *PeerError) []byte {
	dst, start := beginFrame(dst, TypeError)
	dst = appendText(dst, tidyText(e.Step, MaxName))
	message := tidyText(e.Message, MaxErrorText)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(message)))
	dst = append(dst, message...)
	dst, _ = endFrame(dst, start) // cannot fail: tidyText limits both texts
	return dst
}

func (c *cursor) peerError() *PeerError {
	e := &PeerError{Step: c.text()}
	e.Message = string(c.take(int(c.u16())))
	return e
}

func malformed(t MessageType, err error) *ProtocolError {
	return &ProtocolError{Problem: fmt.Sprintf("malformed %v message: %v", t, err), Try: trySameRelease}
}

func unsendable(t MessageType, err error) error {
	return errors.WithMessagef(err, "oob: cannot send this %v message", t)
}

func appendText(dst []byte, s string) []byte {
	return append(append(dst, byte(len(s))), s...)
}

// cursor reads a body from front to back. A read past the end returns zero and sets
// short, so decodeMessage checks for errors once, with end.
type cursor struct {
	rest  []byte
	short bool
	err   error // the first rule that the body breaks, of those that stand before its end
}

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = errors.Errorf(format, args...)
	}
}

func (c *cursor) take(n int) []byte {
	if n > len(c.rest) {
		c.rest, c.short = nil, true
		return nil
	}
	b := c.rest[:n:n]
	c.rest = c.rest[n:]
	return b
}

// number reads n bytes, at most eight, as a big-endian integer.
func (c *cursor) number(n int) (v uint64) {
	for _, b := range c.take(n) {
		v = v<<8 | uint64(b)
	}
	return v
}

func (c *cursor) u8() uint8    { return uint8(c.number(1)) }
func (c *cursor) u16() uint16  { return uint16(c.number(2)) }
func (c *cursor) u32() uint32  { return uint32(c.number(4)) }
func (c *cursor) u64() uint64  { return c.number(8) }
func (c *cursor) text() string { return string(c.take(int(c.u8()))) }

// end returns the error of fail, or one if the body was too short or too long.
func (c *cursor) end() error {
	switch {
	case c.err != nil:
		return c.err
	case c.short:
		return errors.New("the body ends too early")
	case len(c.rest) > 0:
		return errors.Errorf("%d bytes are left over", len(c.rest))
	}
	return nil
}
