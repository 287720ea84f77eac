package doctor

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// attr makes a netlink attribute of its parts: a number is big-endian, a text ends with 0.
func attr(kind int, parts ...any) []byte {
	b := binary.NativeEndian.AppendUint16(make([]byte, 2), uint16(kind))
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = binary.BigEndian.AppendUint32(b, uint32(p))
		case string:
			b = append(append(b, p...), 0)
		case []byte:
			b = append(b, p...)
		}
	}
	binary.NativeEndian.PutUint16(b, uint16(len(b)))
	return append(b, make([]byte, (4-len(b)%4)%4)...)
}

func expression(name string, data ...any) []byte {
	return attr(unix.NFTA_LIST_ELEM, attr(unix.NFTA_EXPR_NAME, name), attr(unix.NFTA_EXPR_DATA, data...))
}

func verdict(code int, chain string) []byte {
	v := attr(unix.NFTA_DATA_VERDICT, attr(unix.NFTA_VERDICT_CODE, code), attr(unix.NFTA_VERDICT_CHAIN, chain))
	return expression("immediate", attr(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT), attr(unix.NFTA_IMMEDIATE_DATA, v))
}

func compare(op int, value ...byte) []byte {
	return expression("cmp", attr(unix.NFTA_CMP_SREG, 1), attr(unix.NFTA_CMP_OP, op), attr(unix.NFTA_CMP_DATA, attr(unix.NFTA_DATA_VALUE, value)))
}

func meta(key int) []byte {
	return expression("meta", attr(unix.NFTA_META_DREG, 1), attr(unix.NFTA_META_KEY, key))
}

func transport(offset, length int) []byte {
	return expression("payload", attr(unix.NFTA_PAYLOAD_DREG, 1), attr(unix.NFTA_PAYLOAD_BASE, unix.NFT_PAYLOAD_TRANSPORT_HEADER),
		attr(unix.NFTA_PAYLOAD_OFFSET, offset), attr(unix.NFTA_PAYLOAD_LEN, length))
}

// dport compares the port of the destination.
func dport(op, port int) []byte {
	return slices.Concat(transport(2, 2), compare(op, byte(port>>8), byte(port)))
}

// established are the expressions of "ct state established,related".
func established() []byte {
	mask := binary.NativeEndian.AppendUint32(nil, 6)
	return slices.Concat(
		expression("ct", attr(unix.NFTA_CT_DREG, 1), attr(unix.NFTA_CT_KEY, unix.NFT_CT_STATE)),
		expression("bitwise", attr(unix.NFTA_BITWISE_SREG, 1), attr(unix.NFTA_BITWISE_DREG, 1),
			attr(unix.NFTA_BITWISE_MASK, attr(unix.NFTA_DATA_VALUE, mask)), attr(unix.NFTA_BITWISE_XOR, attr(unix.NFTA_DATA_VALUE, make([]byte, 4)))),
		compare(unix.NFT_CMP_NEQ, 0, 0, 0, 0))
}

// baseChain makes a chain of arriving packets.
func baseChain(name string, policy int) reply {
	return reply{unix.NFPROTO_INET, slices.Concat(
		attr(unix.NFTA_CHAIN_TABLE, "filter"), attr(unix.NFTA_CHAIN_NAME, name), attr(unix.NFTA_CHAIN_POLICY, policy),
		attr(unix.NFTA_CHAIN_HOOK, attr(unix.NFTA_HOOK_HOOKNUM, unix.NF_INET_LOCAL_IN)))}
}

func rule(chain string, expressions []byte) reply {
	return reply{unix.NFPROTO_INET, slices.Concat(
		attr(unix.NFTA_RULE_TABLE, "filter"), attr(unix.NFTA_RULE_CHAIN, chain), attr(unix.NFTA_RULE_EXPRESSIONS, expressions))}
}

func TestJudge(t *testing.T) {
	var (
		drop   = verdict(verdictDrop, "")
		accept = verdict(verdictAccept, "")
		set    = expression("lookup") // of a set, whose members are unknown
		log    = expression("counter")
		from   = func(name string) []byte {
			return slices.Concat(meta(unix.NFT_META_IIFNAME), compare(unix.NFT_CMP_EQ, append([]byte(name), make([]byte, 16-len(name))...)...))
		}
	)
	for _, c := range []struct {
		name   string
		policy int
		rules  [][]byte // of the chain in; a nil rule is followed by those of the chain sub
		drops  bool
		may    bool
	}{
		{"no rules", verdictAccept, nil, false, false},
		{"policy", verdictDrop, nil, true, true},
		{"the port", verdictAccept, [][]byte{slices.Concat(dport(unix.NFT_CMP_EQ, 4791), log, drop)}, true, true},
		{"another port", verdictAccept, [][]byte{slices.Concat(dport(unix.NFT_CMP_EQ, 4790), drop)}, false, false},
		{"ports", verdictAccept, [][]byte{slices.Concat(transport(2, 2), compare(unix.NFT_CMP_GTE, 0x12, 0), compare(unix.NFT_CMP_LTE, 0x13, 0), expression("reject"))}, true, true},
		{"accepted before", verdictDrop, [][]byte{slices.Concat(dport(unix.NFT_CMP_EQ, 4791), accept), drop}, false, false},
		{"TCP", verdictAccept, [][]byte{slices.Concat(meta(unix.NFT_META_L4PROTO), compare(unix.NFT_CMP_EQ, 6), drop)}, false, false},
		{"a set", verdictAccept, [][]byte{slices.Concat(transport(2, 2), set, drop)}, false, true},
		{"a set, then the policy", verdictDrop, [][]byte{slices.Concat(transport(2, 2), set, accept)}, false, true},
		{"the port of the source", verdictAccept, [][]byte{slices.Concat(transport(0, 2), compare(unix.NFT_CMP_EQ, 0x12, 0xb7), drop)}, false, true},
		{"only from lo", verdictDrop, [][]byte{slices.Concat(from("lo"), accept), slices.Concat(established(), accept)}, true, true},
		{"from the interface", verdictDrop, [][]byte{slices.Concat(from("eth0"), accept)}, false, false},
		{"from eth*", verdictDrop, [][]byte{slices.Concat(meta(unix.NFT_META_IIFNAME), compare(unix.NFT_CMP_EQ, []byte("eth")...), accept)}, false, false},
		{"jump", verdictAccept, [][]byte{verdict(unix.NFT_JUMP, "sub"), nil, drop}, true, true},
		{"jump and return", verdictAccept, [][]byte{verdict(unix.NFT_JUMP, "sub"), nil, verdict(unix.NFT_RETURN, ""), drop}, false, false},
		{"goto, then the policy", verdictDrop, [][]byte{verdict(unix.NFT_GOTO, "sub"), accept, nil, slices.Concat(dport(unix.NFT_CMP_EQ, 1), accept)}, true, true},
		{"a chain that jumps to itself", verdictAccept, [][]byte{verdict(unix.NFT_JUMP, "in")}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			chains := []reply{baseChain("in", c.policy)}
			var rules []reply
			chain := "in"
			for _, r := range c.rules {
				if r == nil {
					chain = "sub"
					continue
				}
				rules = append(rules, rule(chain, r))
			}
			want := []Chain{{"inet", "filter", "in", true, c.drops, c.may}}
			if got := judge(chains, rules, "eth0", 2, maxRules); !slices.Equal(got, want) {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}

// TestJudgeOfManyRules checks how many rules judge evaluates: each rule once per base chain.
// With fewer it does not know what a chain does.
func TestJudgeOfManyRules(t *testing.T) {
	drop := verdict(verdictDrop, "")
	// services has one chain per service, as the rules of kube-proxy have.
	var services []reply
	for i := range 5000 {
		name := fmt.Sprint("service", i)
		services = append(services, rule("in", verdict(unix.NFT_JUMP, name)), rule(name, slices.Concat(dport(unix.NFT_CMP_EQ, i%4000), drop)))
	}
	// ladder has three jumps in each chain to the next one: 3^40 ways to the last chain.
	var ladder []reply
	for i := range 40 {
		from, to := fmt.Sprint("c", i), fmt.Sprint("c", i+1)
		if i == 0 {
			from = "in"
		}
		for range 3 {
			ladder = append(ladder, rule(from, verdict(unix.NFT_JUMP, to)))
		}
	}
	for name, rules := range map[string][]reply{"services": services, "ladder": ladder} {
		t.Run(name, func(t *testing.T) {
			rules = append(rules, rule("in", drop))
			chains := []reply{baseChain("in", verdictAccept), baseChain("in", verdictAccept)}
			for limit, want := range map[int]Chain{
				len(rules):     {"inet", "filter", "in", true, true, true},
				len(rules) - 1: {"inet", "filter", "in", true, false, true},
			} {
				if got := judge(chains, rules, "eth0", 2, limit); got[0] != want {
					t.Errorf("%d of %d rules: %+v, want %+v", limit, len(rules), got[0], want)
				}
			}
			// The rules that the first base chain took are not left for the second.
			if got := judge(chains, rules, "eth0", 2, len(rules)); !got[0].Drops || got[1].Drops || !got[1].May {
				t.Errorf("%+v, want the second to be unknown", got)
			}
		})
	}
}
