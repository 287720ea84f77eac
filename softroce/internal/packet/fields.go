// Fields: a packet as a list of its header fields, for people who look at it. The layouts are
// tables; the row of the opcode says which headers a packet has. Every bit of the frame is in
// exactly one field.

package packet

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// Field is a run of bits of a frame.
type Field struct {
	Header  string // "IPv4", "UDP", "BTH" …; "payload", "pad" and "ICRC" for what follows the headers
	Name    string // as in the specification
	Bit     int    // offset from the frame's first bit
	Width   int    // bits
	Value   uint64 // if Width is at most 64
	Bytes   []byte // if Width is more
	About   string // what the field is for
	Meaning string // what the value means; "" if the number says all
}

// layout is a row of a header's table.
type layout struct {
	name  string
	width int
	about string
	mean  func(uint64) string // nil: the number says all
}

var (
	// The traffic class of IPv6, and the type of service of IPv4.
	dscpField = layout{"DSCP", 6, "the class of service; AH.TrafficClass sets it, and the ICRC does not cover it", nil}
	ecnField  = layout{"ECN", 2, "explicit congestion notification; switches change it, so the ICRC does not cover it", ecnText}

	ipv4Fields = []layout{
		{"Version", 4, "the version of IP", nil},
		{"IHL", 4, "the length of this header in words of 4 bytes", nil},
		dscpField,
		ecnField,
		{"Total Length", 16, "bytes of the IP packet", nil},
		{"Identification", 16, "numbers packets for reassembly; the ICRC covers it", nil},
		{"Flags", 3, "2 means do not fragment", nil},
		{"Fragment Offset", 13, "0: the packet is whole", nil},
		{"TTL", 8, "routers that the packet may still pass; not covered by the ICRC", nil},
		{"Protocol", 8, "17 is UDP", nil},
		{"Header Checksum", 16, "of this header; routers change it, so the ICRC does not cover it", nil},
		{"Source", 32, "the sender's address: the last 4 bytes of its GID", ipv4Text},
		{"Destination", 32, "the receiver's address: the last 4 bytes of its GID", ipv4Text},
	}
	ipv6Fields = []layout{
		{"Version", 4, "the version of IP", nil},
		dscpField,
		ecnField,
		{"Flow Label", 20, "may choose among equal paths; not covered by the ICRC", nil},
		{"Payload Length", 16, "bytes after this header", nil},
		{"Next Header", 8, "17 is UDP", nil},
		{"Hop Limit", 8, "routers that the packet may still pass; not covered by the ICRC", nil},
		{"Source", 128, "the sender's GID", nil},
		{"Destination", 128, "the receiver's GID", nil},
	}
	udpFields = []layout{
		{"Source Port", 16, "any number; it may choose among equal paths", nil},
		{"Destination Port", 16, "4791 is RoCEv2", nil},
		{"Length", 16, "bytes of the UDP datagram, this header included", nil},
		{"Checksum", 16, "of the datagram; the ICRC does not cover it", nil},
	}
	bthFields = []layout{
		{"OpCode", 8, "the transport and the operation; says which headers follow", func(v uint64) string { return Opcode(v).String() }},
		{"SE", 1, "solicited event: wakes a receiver that armed its CQ for solicited completions only", nil},
		{"M", 1, "path migration state; unused on RoCE", nil},
		{"PadCnt", 2, "bytes between payload and ICRC, so that the packet is a multiple of 4", nil},
		{"TVer", 4, "the version of the transport headers", nil},
		{"P_Key", 16, "the partition; both ends must be in the same", partition},
		{"F", 1, "FECN: the path is congested; the ICRC does not cover this byte", nil},
		{"B", 1, "BECN: the path back is congested", nil},
		{"Reserved", 6, "0; the ICRC does not cover these bits", nil},
		{"DestQP", 24, "the receiver's queue pair: DEST_QPN", nil},
		{"A", 1, "whether the requester asks for an acknowledgement", nil},
		{"Reserved", 7, "0", nil},
		{"PSN", 24, "the packet's number; the responder expects them in order", nil},
	}
	headerFields = [headerKinds][]layout{
		kindDETH: {
			{"Q_Key", 32, "must be the receiver's queue key", nil},
			{"Reserved", 8, "0", nil},
			{"SrcQP", 24, "the sender's queue pair, for an answer", nil},
		},
		kindFETH: {
			{"Reserved", 26, "0", nil},
			{"SEL", 2, "which memory: a range or the whole region", func(v uint64) string { return verbs.FlushLevel(v).String() }},
			{"PLT", 4, "where the data must be", func(v uint64) string { return verbs.FlushType(v).String() }},
		},
		kindRETH: {
			{"VA", 64, "the address at the responder: remote_addr", nil},
			{"R_Key", 32, "the key of the responder's region: rkey", nil},
			{"DMALen", 32, "bytes of the whole message, not only of this packet", nil},
		},
		kindAtomicETH: {
			{"VA", 64, "the address at the responder, a multiple of 8", nil},
			{"R_Key", 32, "the key of the responder's region: rkey", nil},
			{"SwapDt", 64, "the value to store, or to add", nil},
			{"CmpDt", 64, "the value to compare with", nil},
		},
		kindAETH: {
			{"Syndrome", 8, "ACK, RNR NAK or NAK", syndromeText},
			{"MSN", 24, "messages that the responder has completed", nil},
		},
		kindAtomicAckETH: {{"OrigRemDt", 64, "the value at the responder before the operation", nil}},
		kindImmDt:        {{"ImmDt", 32, "the immediate data: it appears in the receiver's completion", nil}},
		kindIETH:         {{"R_Key", 32, "the key that the responder must invalidate", nil}},
	}
	headerNames = [headerKinds]string{
		kindDETH: "DETH", kindFETH: "FETH", kindRETH: "RETH", kindAtomicETH: "AtomicETH", kindAETH: "AETH",
		kindAtomicAckETH: "AtomicAckETH", kindImmDt: "ImmDt", kindIETH: "IETH",
	}
)

func ipv4Text(v uint64) string {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(v)))).String()
}

func ecnText(v uint64) string {
	return [...]string{"a congested switch may lose the packet, not mark it", "a switch may mark the packet", "a switch may mark the packet", "CE: a congested switch has marked the packet"}[v&3]
}

func partition(v uint64) string {
	if v == DefaultPKey {
		return "the default partition, full member"
	}
	return "partition " + strconv.FormatUint(v&0x7fff, 16)
}

func syndromeText(v uint64) string {
	if s := Syndrome(v); s.Kind() == KindRNR {
		return fmt.Sprintf("RNR NAK: no receive is posted; wait %v", qpstate.RNRTimer(s.Value()))
	}
	return Syndrome(v).String()
}

// Fields returns the fields of a frame: an IP packet as Frame.Append makes it. If the frame is not
// a packet that Parse accepts, the bytes after the last known header are one field "data".
func Fields(frame []byte) []Field {
	f := fieldList{frame: frame}
	switch {
	case len(frame) >= IPv4Len+UDPLen && frame[0]>>4 == 4:
		f.add("IPv4", ipv4Fields)
	case len(frame) >= IPv6Len+UDPLen && frame[0]>>4 == 6:
		f.add("IPv6", ipv6Fields)
	default:
		f.rest("data", "", "not an IP packet", len(frame))
		return f.fields
	}
	f.add("UDP", udpFields)
	p, err := Parse(frame[f.at/8:])
	if !p.HasBTH() {
		f.rest("data", "", "not a packet of RoCE: "+err.Error(), len(frame)-f.at/8)
		return f.fields
	}
	f.add("BTH", bthFields)
	if err != nil {
		f.rest("data", "", "the packet is malformed: "+err.Error(), len(frame)-f.at/8)
		return f.fields
	}
	info := &opcodes[p.opcode]
	for kind, fields := range headerFields {
		if info.headers>>kind&1 != 0 {
			f.add(headerNames[kind], fields)
		}
	}
	f.rest("payload", "Payload", "the bytes of the message", int(p.payload))
	f.rest("pad", "Pad", "zeros, up to a multiple of 4", p.BTH().Pad())
	f.rest("ICRC", "ICRC", "the invariant CRC, over everything that routers do not change; the only field in little-endian order", icrcLen)
	f.icrcOrder()
	return f.fields
}

// fieldList collects the fields of a frame.
type fieldList struct {
	frame  []byte
	at     int // in bits
	fields []Field
}

// add appends the fields of a header.
func (f *fieldList) add(header string, rows []layout) {
	for _, row := range rows {
		field := Field{Header: header, Name: row.name, Bit: f.at, Width: row.width, About: row.about}
		if row.width > 64 {
			field.Bytes = f.frame[f.at/8 : (f.at+row.width)/8]
			field.Meaning = netip.AddrFrom16([16]byte(field.Bytes)).String()
		} else {
			field.Value = bitsAt(f.frame, f.at, row.width)
			if row.mean != nil {
				field.Meaning = row.mean(field.Value)
			}
		}
		f.fields = append(f.fields, field)
		f.at += row.width
	}
}

// rest appends n bytes as one field.
func (f *fieldList) rest(header, name, about string, n int) {
	if n == 0 {
		return
	}
	field := Field{Header: header, Name: name, Bit: f.at, Width: 8 * n, About: about}
	if n <= 8 {
		field.Value = bitsAt(f.frame, f.at, 8*n)
	} else {
		field.Bytes = f.frame[f.at/8 : f.at/8+n]
	}
	f.fields = append(f.fields, field)
	f.at += 8 * n
}

// icrcOrder gives the ICRC's number, which is stored in little-endian order.
func (f *fieldList) icrcOrder() {
	last := &f.fields[len(f.fields)-1]
	last.Meaning = fmt.Sprintf("0x%08x", binary.LittleEndian.Uint32(f.frame[last.Bit/8:]))
}

// bitsAt returns the n bits at an offset, most significant first.
func bitsAt(b []byte, at, n int) (v uint64) {
	for i := at; i < at+n; i++ {
		v = v<<1 | uint64(b[i/8]>>(7-i%8)&1)
	}
	return v
}
