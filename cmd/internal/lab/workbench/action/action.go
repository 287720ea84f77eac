// Package action has what a user of the laboratory can do, as data.
package action

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/pkg/errors"
)

// Action is one step of a session. Do names it. The other
// fields depend on it; web/API.md has the table. Fields that do not belong to the action are
// ignored.
type Action struct {
	Do   string `json:"do"`
	Host string `json:"host,omitempty"` // "client" or "server"
	Name string `json:"name,omitempty"` // the object to make, or the one to act on

	// Making objects.
	PD     string   `json:"pd,omitempty"`
	SendCQ string   `json:"send_cq,omitempty"`
	RecvCQ string   `json:"recv_cq,omitempty"`
	SRQ    string   `json:"srq,omitempty"`
	Type   string   `json:"type,omitempty"`   // of a QP: "RC", "UC", "UD"; of a window: "1", "2"
	Depth  int      `json:"depth,omitempty"`  // of a CQ
	Length int      `json:"length,omitempty"` // of a region or a bind, bytes
	Access []string `json:"access,omitempty"` // of a region or a bind: "LOCAL_WRITE" …
	MaxWR  uint32   `json:"max_wr,omitempty"` // of an SRQ
	MaxSGE uint32   `json:"max_sge,omitempty"`
	Limit  *uint32  `json:"limit,omitempty"` // modify_srq
	Cap    *Cap     `json:"cap,omitempty"`   // of a QP
	SigAll bool     `json:"sig_all,omitempty"`
	AV     *AV      `json:"av,omitempty"` // of an AH

	// Moving a queue pair, and the exchange.
	Mask []string                   `json:"mask,omitempty"` // names of bits: "STATE", "PORT" …
	Attr map[string]json.RawMessage `json:"attr,omitempty"` // values by the names of their bits
	Peer string                     `json:"peer,omitempty"` // the peer's queue pair that "peer" stands for; "": the one of the last exchange
	PSN  *uint32                    `json:"psn,omitempty"`  // exchange: this end's first PSN
	MR   string                     `json:"mr,omitempty"`   // exchange and bind_mw: the region
	LKey bool                       `json:"lkey,omitempty"` // exchange: tell the lkey in place of the rkey

	// Queues.
	WRs       []WR     `json:"wrs,omitempty"`
	ID        Num      `json:"id,omitempty"`    // bind_mw
	Flags     []string `json:"flags,omitempty"` // bind_mw
	MW        string   `json:"mw,omitempty"`    // bind_mw
	Max       int      `json:"max,omitempty"`   // poll_cq; 0: 16
	Solicited bool     `json:"solicited,omitempty"`

	// Memory.
	Offset int    `json:"offset,omitempty"`
	Hex    string `json:"hex,omitempty"`
	Text   string `json:"text,omitempty"`

	// The clock and the wire.
	NS     int64 `json:"ns,omitempty"` // run, delay
	Packet int   `json:"packet,omitempty"`
	Bit    int   `json:"bit,omitempty"` // corrupt: counted as in the packet's fields
	On     bool  `json:"on,omitempty"`  // selective_repeat
}

// Cap is the sizes of a queue pair's queues.
type Cap struct {
	SendWR  uint32 `json:"send_wr,omitempty"`
	RecvWR  uint32 `json:"recv_wr,omitempty"`
	SendSGE uint32 `json:"send_sge,omitempty"`
	RecvSGE uint32 `json:"recv_sge,omitempty"`
	Inline  uint32 `json:"inline,omitempty"`
}

// AV is an address vector. Zero fields get the values of a program that works: GID index 1, port 1,
// hop limit 64, is_global.
type AV struct {
	GID          string `json:"gid"`                  // "peer", or an address: "10.0.0.2", "::ffff:10.0.0.2"
	SGIDIndex    *uint8 `json:"sgid_index,omitempty"` // 1 is the only slot that is filled
	Port         *uint8 `json:"port,omitempty"`
	HopLimit     *uint8 `json:"hop_limit,omitempty"`
	TrafficClass uint8  `json:"traffic_class,omitempty"`
	FlowLabel    uint32 `json:"flow_label,omitempty"`
	Local        bool   `json:"local,omitempty"` // is_global = 0, which no RoCE device accepts
}

// WR is a work request for a send or a receive queue.
type WR struct {
	ID     Num      `json:"id,omitempty"`
	Opcode string   `json:"opcode,omitempty"` // "SEND", "RDMA_WRITE" …; of receives: ""
	Flags  []string `json:"flags,omitempty"`  // "SIGNALED", "SOLICITED", "FENCE", "INLINE"
	SGL    []SGE    `json:"sgl,omitempty"`
	Imm    uint32   `json:"imm,omitempty"`
	Remote *Remote  `json:"remote,omitempty"`

	CompareAdd Num `json:"compare_add,omitempty"`
	Swap       Num `json:"swap,omitempty"`

	Invalidate *Remote `json:"invalidate,omitempty"` // the key to invalidate; of LOCAL_INV: MW
	MW         string  `json:"mw,omitempty"`         // BIND_MW and LOCAL_INV: this end's window
	Bind       *Bind   `json:"bind,omitempty"`
	Flush      *Flush  `json:"flush,omitempty"`

	AH         string `json:"ah,omitempty"`          // UD
	RemoteQP   string `json:"remote_qp,omitempty"`   // UD: the peer's queue pair, as the exchange reported it
	RemoteQPN  *Num   `json:"remote_qpn,omitempty"`  // UD: in place of RemoteQP
	RemoteQKey *Num   `json:"remote_qkey,omitempty"` // UD: nil means the Q_Key of the exchange
}

// SGE names bytes of one of this end's regions. The bytes need not lie within it.
type SGE struct {
	MR     string `json:"mr"`
	Offset int    `json:"offset,omitempty"`
	Length uint32 `json:"length"`
	LKey   *Num   `json:"lkey,omitempty"` // in place of the region's
}

// Remote names memory of the peer: a region or window that it told, or plain numbers.
type Remote struct {
	MR      string `json:"mr,omitempty"`
	Offset  int    `json:"offset,omitempty"`
	Addr    Num    `json:"addr,omitempty"` // if MR is ""
	RKey    Num    `json:"rkey,omitempty"` // if MR is ""
	RKeyAdd uint32 `json:"rkey_add,omitempty"`
}

// Bind is what a window is bound to.
type Bind struct {
	MR     string   `json:"mr"`
	Offset int      `json:"offset,omitempty"`
	Length int      `json:"length,omitempty"`
	Access []string `json:"access,omitempty"`
}

// Flush is what a FLUSH flushes.
type Flush struct {
	Length uint32 `json:"length,omitempty"`
	Type   uint8  `json:"type"`
	Level  uint8  `json:"level,omitempty"`
}

// Num is a number of up to 64 bits. Its JSON is a number, or above 2⁵³ a string such as "0x1f"; it
// may be read from either.
type Num uint64

// maxExact is the largest number that JavaScript has exactly.
const maxExact = 1<<53 - 1

// MarshalJSON implements json.Marshaler.
func (n Num) MarshalJSON() ([]byte, error) {
	if n > maxExact {
		return []byte(`"0x` + strconv.FormatUint(uint64(n), 16) + `"`), nil
	}
	return strconv.AppendUint(nil, uint64(n), 10), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Num) UnmarshalJSON(text []byte) error {
	digits := string(bytes.Trim(text, `"`))
	v, err := strconv.ParseUint(digits, 0, 64)
	if err != nil {
		return errors.Errorf("%s is not a number from 0 to 2⁶⁴-1", text)
	}
	*n = Num(v)
	return nil
}

// Parse reads an action. It refuses names that no action has.
func Parse(text []byte) (a Action, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&a); err != nil {
		return a, errors.WithMessage(err, "not an action")
	}
	return a, nil
}

// Bytes returns what a write stores.
func (a *Action) Bytes() ([]byte, error) {
	if a.Hex == "" {
		return []byte(a.Text), nil
	}
	b, err := hex.DecodeString(a.Hex)
	return b, errors.WithMessage(err, "hex")
}

// Title is the action in a few words.
func (a *Action) Title() string {
	words := []string{a.Host, a.Do, a.Name}
	if a.Do == "exchange" {
		words = append(words, a.MR)
	}
	return strings.Join(strings.Fields(strings.Join(words, " ")), " ")
}

// FromPeer reports whether an address vector takes the GID that the peer has told.
func (av *AV) FromPeer() bool { return av.GID == "peer" }
