// Reading the rules of nftables: what they do with a RoCE packet.

package doctor

import (
	"bytes"
	"encoding/binary"
	"net"
	"strings"

	"golang.org/x/sys/unix"
)

// Chains reads the rules over netlink.
func (system) Chains(netdev string) ([]Chain, error) {
	index := 0
	if f, err := net.InterfaceByName(netdev); err == nil {
		index = f.Index
	}
	chains, err := dump(unix.NFT_MSG_GETCHAIN)
	if err != nil {
		return nil, err
	}
	rules, err := dump(unix.NFT_MSG_GETRULE)
	if err != nil {
		return nil, err
	}
	return judge(chains, rules, netdev, index, maxRules), nil
}

// The constants that package unix lacks.
const (
	generic       = 4 // bytes of struct nfgenmsg
	verdictDrop   = 0 // NF_DROP
	verdictAccept = 1 // NF_ACCEPT
)

// maxRules is how many rules are evaluated for one interface. 100000 take about 0.15 s.
const maxRules = 500_000

// reply is one message of a dump: the family, and the attributes.
type reply struct {
	family byte
	attrs  attrs
}

// dump asks the kernel for all objects of a kind.
func dump(kind uint16) (replies []reply, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return nil, err
	}
	request := make([]byte, unix.SizeofNlMsghdr+generic)
	binary.NativeEndian.PutUint32(request[0:], uint32(len(request)))
	binary.NativeEndian.PutUint16(request[4:], unix.NFNL_SUBSYS_NFTABLES<<8|kind)
	binary.NativeEndian.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	buf := make([]byte, 1<<18)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err != nil {
			return nil, err
		}
		for rest := buf[:n]; len(rest) >= unix.SizeofNlMsghdr; {
			size := int(binary.NativeEndian.Uint32(rest))
			if size < unix.SizeofNlMsghdr || size > len(rest) {
				return replies, nil
			}
			body := rest[unix.SizeofNlMsghdr:size]
			switch binary.NativeEndian.Uint16(rest[4:]) {
			case unix.NLMSG_DONE:
				return replies, nil
			case unix.NLMSG_ERROR:
				errno := unix.Errno(-int32(binary.NativeEndian.Uint32(body)))
				if errno == unix.EINVAL || errno == unix.EOPNOTSUPP {
					return nil, nil // the kernel has no nf_tables
				}
				return nil, errno
			}
			if len(body) >= generic {
				body = bytes.Clone(body)
				replies = append(replies, reply{body[0], body[generic:]})
			}
			rest = rest[min((size+3)&^3, len(rest)):]
		}
	}
}

// attrs is a list of netlink attributes.
type attrs []byte

// each calls f with each attribute.
func (a attrs) each(f func(kind int, value attrs)) {
	for len(a) >= 4 {
		size := int(binary.NativeEndian.Uint16(a))
		if size < 4 || size > len(a) {
			return
		}
		f(int(binary.NativeEndian.Uint16(a[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER)), a[4:size])
		a = a[min((size+3)&^3, len(a)):]
	}
}

// get returns the first attribute of a kind, nil if there is none.
func (a attrs) get(kind int) (found attrs) {
	a.each(func(k int, value attrs) {
		if k == kind && found == nil {
			found = value
		}
	})
	return found
}

func (a attrs) text(kind int) string { return strings.TrimRight(string(a.get(kind)), "\x00") }

// number returns an attribute as a number, -1 if there is none.
func (a attrs) number(kind int) int {
	if v := a.get(kind); len(v) == 4 {
		return int(int32(binary.BigEndian.Uint32(v)))
	}
	return -1
}

var families = map[byte]string{unix.NFPROTO_INET: "inet", unix.NFPROTO_IPV4: "ip", unix.NFPROTO_NETDEV: "netdev"}

// chainID names a chain.
type chainID struct {
	family      byte
	table, name string
}

// judge returns the base chains that a RoCE packet through an interface meets, with what
// they do with it. It evaluates at most limit rules. A base chain that needs more than are
// left may drop the packet.
func judge(chains, rules []reply, netdev string, index, limit int) (list []Chain) {
	byChain := map[chainID][]reply{}
	for _, r := range rules {
		id := chainID{r.family, r.attrs.text(unix.NFTA_RULE_TABLE), r.attrs.text(unix.NFTA_RULE_CHAIN)}
		byChain[id] = append(byChain[id], r)
	}
	for _, c := range chains {
		hook := c.attrs.get(unix.NFTA_CHAIN_HOOK)
		family, is := families[c.family]
		if hook == nil || !is {
			continue
		}
		number := hook.number(unix.NFTA_HOOK_HOOKNUM)
		arrival := number <= unix.NF_INET_LOCAL_IN || number == 5 // ingress
		if c.family == unix.NFPROTO_NETDEV {
			if hook.text(unix.NFTA_HOOK_DEV) != netdev {
				continue
			}
			arrival = number == 0
		} else if number == unix.NF_INET_FORWARD {
			continue
		}
		table, name := c.attrs.text(unix.NFTA_CHAIN_TABLE), c.attrs.text(unix.NFTA_CHAIN_NAME)
		p := packet{rules: byChain, netdev: netdev, index: index, arrival: arrival, left: limit, fates: map[chainID]int{}}
		last := p.walk(chainID{c.family, table, name})
		limit = p.left
		if last == 0 && c.attrs.number(unix.NFTA_CHAIN_POLICY) == verdictDrop {
			last = drops
		}
		list = append(list, Chain{
			Family: family, Table: table, Name: name, Arrival: arrival,
			Drops: last == drops && !p.mayAccept, May: last == drops || p.mayDrop,
		})
	}
	return list
}

// The fate of a packet in a chain. The fate 0 means that the chain does not decide: the
// chain above or the policy decides.
const (
	drops   = 1
	accepts = 2
)

// packet is a RoCE packet on its way through the chains of one table.
type packet struct {
	rules     map[chainID][]reply
	left      int             // how many rules may still be evaluated
	fates     map[chainID]int // of the chains that the packet has met
	netdev    string
	index     int
	arrival   bool
	registers [24][]byte // their values; nil if unknown
	mayDrop   bool       // a rule whose conditions are unknown drops it
	mayAccept bool
}

// walk takes the packet through a chain and returns its fate. Each chain is walked once,
// because a packet has the same fate in a chain wherever it comes from.
func (p *packet) walk(chain chainID) (fate int) {
	if fate, met := p.fates[chain]; met {
		return fate
	}
	p.fates[chain] = 0 // ends a loop of jumps; the kernel accepts none
	defer func() { p.fates[chain] = fate }()
	for _, r := range p.rules[chain] {
		if p.left == 0 {
			p.mayDrop, p.mayAccept = true, true
			return 0
		}
		p.left--
		fate, leaves, sure := p.rule(chain, r.attrs.get(unix.NFTA_RULE_EXPRESSIONS))
		switch {
		case !sure:
			p.mayDrop = p.mayDrop || fate == drops
			p.mayAccept = p.mayAccept || fate == accepts || leaves
		case fate != 0 || leaves:
			return fate
		}
	}
	return 0
}

// rule evaluates one rule of a chain. leaves: the packet returns to the chain above. sure:
// all conditions of the rule are known.
func (p *packet) rule(chain chainID, expressions attrs) (fate int, leaves, sure bool) {
	p.registers = [24][]byte{} // each rule loads what it compares
	sure = true
	over := false
	expressions.each(func(_ int, e attrs) {
		if over {
			return
		}
		data := e.get(unix.NFTA_EXPR_DATA)
		switch e.text(unix.NFTA_EXPR_NAME) {
		case "meta":
			p.load(data.number(unix.NFTA_META_DREG), p.meta(data.number(unix.NFTA_META_KEY)))
		case "payload":
			p.load(data.number(unix.NFTA_PAYLOAD_DREG), payload(data))
		case "ct":
			var state []byte
			if data.number(unix.NFTA_CT_KEY) == unix.NFT_CT_STATE {
				state = binary.NativeEndian.AppendUint32(nil, 8) // new
			}
			p.load(data.number(unix.NFTA_CT_DREG), state)
		case "bitwise":
			p.load(data.number(unix.NFTA_BITWISE_DREG), p.bitwise(data))
		case "cmp", "range":
			matches, known := p.compare(data, e.text(unix.NFTA_EXPR_NAME) == "range")
			sure = sure && known
			over = known && !matches
			if over {
				fate, leaves, sure = 0, false, true
			}
		case "immediate":
			if data.number(unix.NFTA_IMMEDIATE_DREG) != unix.NFT_REG_VERDICT {
				p.load(data.number(unix.NFTA_IMMEDIATE_DREG), data.get(unix.NFTA_IMMEDIATE_DATA).get(unix.NFTA_DATA_VALUE))
				return
			}
			over = true
			verdict := data.get(unix.NFTA_IMMEDIATE_DATA).get(unix.NFTA_DATA_VERDICT)
			switch verdict.number(unix.NFTA_VERDICT_CODE) {
			case verdictDrop:
				fate = drops
			case verdictAccept:
				fate = accepts
			case unix.NFT_RETURN:
				leaves = true
			case unix.NFT_JUMP, unix.NFT_GOTO:
				fate = p.walk(chainID{chain.family, chain.table, verdict.text(unix.NFTA_VERDICT_CHAIN)})
				leaves = verdict.number(unix.NFTA_VERDICT_CODE) == unix.NFT_GOTO
			}
		case "reject":
			fate, over = drops, true
		case "counter", "log", "notrack":
		default: // sets, limits, iptables' matches
			sure = false
		}
	})
	return fate, leaves, sure
}

func (p *packet) load(register int, value []byte) {
	if register >= 0 && register < len(p.registers) {
		p.registers[register] = value
	}
}

func (p *packet) register(number int) []byte {
	if number < 0 || number >= len(p.registers) {
		return nil
	}
	return p.registers[number]
}

// meta returns a property of the packet, nil if it is unknown.
func (p *packet) meta(key int) []byte {
	in, out, inIndex, outIndex := "", p.netdev, 0, p.index
	if p.arrival {
		in, out, inIndex, outIndex = out, in, outIndex, inIndex
	}
	name := func(s string) []byte { return append([]byte(s), make([]byte, 16-len(s))...) }
	switch key {
	case unix.NFT_META_L4PROTO:
		return []byte{unix.IPPROTO_UDP}
	case unix.NFT_META_NFPROTO:
		return []byte{unix.NFPROTO_IPV4}
	case unix.NFT_META_PROTOCOL:
		return []byte{8, 0}
	case unix.NFT_META_IIFNAME:
		return name(in)
	case unix.NFT_META_OIFNAME:
		return name(out)
	case unix.NFT_META_IIF:
		return binary.NativeEndian.AppendUint32(nil, uint32(inIndex))
	case unix.NFT_META_OIF:
		return binary.NativeEndian.AppendUint32(nil, uint32(outIndex))
	}
	return nil
}

// payload returns bytes of the packet's headers, nil if they are unknown.
func payload(data attrs) []byte {
	type place struct{ base, offset, length int }
	return map[place][]byte{
		{unix.NFT_PAYLOAD_NETWORK_HEADER, 9, 1}:   {unix.IPPROTO_UDP},
		{unix.NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2}: binary.BigEndian.AppendUint16(nil, rocePort),
	}[place{data.number(unix.NFTA_PAYLOAD_BASE), data.number(unix.NFTA_PAYLOAD_OFFSET), data.number(unix.NFTA_PAYLOAD_LEN)}]
}

func (p *packet) bitwise(data attrs) []byte {
	value := bytes.Clone(p.register(data.number(unix.NFTA_BITWISE_SREG)))
	mask := data.get(unix.NFTA_BITWISE_MASK).get(unix.NFTA_DATA_VALUE)
	xor := data.get(unix.NFTA_BITWISE_XOR).get(unix.NFTA_DATA_VALUE)
	if value == nil || len(mask) != len(value) || len(xor) != len(value) {
		return nil
	}
	for i := range value {
		value[i] = value[i]&mask[i] ^ xor[i]
	}
	return value
}

// compare evaluates a comparison. known: its value is known.
func (p *packet) compare(data attrs, isRange bool) (matches, known bool) {
	if isRange {
		value := p.register(data.number(unix.NFTA_RANGE_SREG))
		from := data.get(unix.NFTA_RANGE_FROM_DATA).get(unix.NFTA_DATA_VALUE)
		to := data.get(unix.NFTA_RANGE_TO_DATA).get(unix.NFTA_DATA_VALUE)
		inside := bytes.Compare(value, from) >= 0 && bytes.Compare(value, to) <= 0
		return inside == (data.number(unix.NFTA_RANGE_OP) == unix.NFT_RANGE_EQ), value != nil
	}
	value, with := p.register(data.number(unix.NFTA_CMP_SREG)), data.get(unix.NFTA_CMP_DATA).get(unix.NFTA_DATA_VALUE)
	if value == nil || len(with) > len(value) {
		return false, false
	}
	order := bytes.Compare(value[:len(with)], with) // "eth*" compares the beginning
	switch data.number(unix.NFTA_CMP_OP) {
	case unix.NFT_CMP_EQ:
		return order == 0, true
	case unix.NFT_CMP_NEQ:
		return order != 0, true
	case unix.NFT_CMP_LT:
		return order < 0, true
	case unix.NFT_CMP_LTE:
		return order <= 0, true
	case unix.NFT_CMP_GT:
		return order > 0, true
	case unix.NFT_CMP_GTE:
		return order >= 0, true
	}
	return false, false
}
