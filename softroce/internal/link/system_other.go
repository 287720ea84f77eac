//go:build !linux

// This file is what a system without batched calls has in their place.

package link

import (
	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// systemCalls are the calls that tests replace; there are none here.
type systemCalls struct{}

var realCalls systemCalls

// options sets what is left, and says that there is but one mode.
func (s *Socket) options(cfg Config) (send, receive Mode, err error) {
	// Some systems refuse what is too much, instead of granting less.
	for size := cfg.ReceiveBuffer; ; size /= 2 {
		err = s.conn.SetReadBuffer(size)
		if err == nil {
			if size != cfg.ReceiveBuffer {
				s.note("the system grants no larger receive buffer than %d KiB", size>>10)
			}
			s.status.ReceiveBuffer = size
			return Plain, Plain, nil
		}
		if size < packet.MaxPacket {
			return 0, 0, errors.WithMessage(err, "softroce/link")
		}
	}
}

// overflow returns 0: the system does not tell.
func (s *Socket) overflow() uint64 { return 0 }

func (s *Socket) send(e *Egress, report **SendError) error { return s.sendEach(e, report) }

func (s *Socket) receive(in *Ingress, t *tally) error { return s.receivePlain(in, t) }

// sendScratch is what an Egress keeps for sending: nothing.
type sendScratch struct{}

func (*sendScratch) plainControl(Destination) []byte { return nil }

// receiveScratch is what an Ingress keeps for receiving.
type receiveScratch struct{ plain []byte }

// plainBuffers returns the buffer to receive one datagram: a byte more than the
// longest packet, so that what is longer shows.
func (t *receiveScratch) plainBuffers() (data, control []byte) {
	if t.plain == nil {
		t.plain = make([]byte, packet.MaxPacket+1)
	}
	return t.plain, nil
}

// parse has nothing to parse.
func (d *datagram) parse([]byte) {}
