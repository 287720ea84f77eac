# Prints one line per packet from the fields that capture.sh --read gets from tshark.
#
#   names: the fields in their order    limit: packets to show; 0: all

BEGIN {
	n = split(names, name, " ")
	for (i = 1; i <= n; i++)
		at[name[i]] = i
	ops = "SEND First,SEND Middle,SEND Last,SEND Last with Immediate,SEND Only,SEND Only with Immediate," \
		"RDMA WRITE First,RDMA WRITE Middle,RDMA WRITE Last,RDMA WRITE Last with Immediate,RDMA WRITE Only," \
		"RDMA WRITE Only with Immediate,RDMA READ Request,RDMA READ response First,RDMA READ response Middle," \
		"RDMA READ response Last,RDMA READ response Only,Acknowledge,ATOMIC Acknowledge,CmpSwap,FetchAdd," \
		"opcode 0x15,SEND Last with Invalidate,SEND Only with Invalidate"
	split(ops, operation, ",") # from 1
	split("RC UC RD UD", transport, " ")
	split("PSN sequence error,invalid request,remote access error,remote operational error,invalid RD request", nak, ",")
	split("hello endpoints regions barrier note", message, " ")
}

{
	all++
	if (f("infiniband.bth.opcode") != "")
		roce()
	else
		tcp()
}

END {
	if (shown < visible)
		printf "… %d more\n", visible - shown
	if (!all) {
		print "no packets of RoCEv2 or TCP"
		exit
	}
	text = all " packets:"
	for (i = 1; i <= kinds; i++)
		text = text (i > 1 ? "," : "") " " counted[kind[i]] " " kind[i]
	print text
}

function f(field) { return $at[field] }

function row(a, b, c, d, e, g, h, i, j) {
	line = sprintf("%5s %9s  %-15s %-15s %-33s %6s  %-8s  %-8s  %s", a, b, c, d, e, g, h, i, j)
	sub(/ +$/, "", line)
	print line
}

function packet(what, kindof, bytes, qp, psn, carries) {
	if (!(kindof in counted))
		kind[++kinds] = kindof
	counted[kindof]++
	if (what == "")
		return
	visible++
	if (limit > 0 && shown >= limit)
		return
	if (!shown++)
		row("#", "seconds", "from", "to", "packet", "bytes", "QP", "PSN", "carries")
	row(f("frame.number"), sprintf("%.6f", f("frame.time_relative")), f("ip.src") f("ipv6.src"), f("ip.dst") f("ipv6.dst"),
		what, bytes, qp, psn, carries)
}

function roce(    op, what, more, headers, syndrome) {
	op = f("infiniband.bth.opcode") + 0
	what = transport[int(op / 32) + 1] " " operation[op % 32 + 1]
	if (op == 129)
		what = "CNP"
	else if (op >= 128 || op % 32 > 23)
		what = sprintf("opcode 0x%02x", op)
	headers = 8 + 12 + 4 # UDP, BTH, ICRC
	if (f("infiniband.deth.q_key") != "") {
		headers += 8
		more = more ", from QP " hex(f("infiniband.deth.srcqp"), 6) " Q_Key " hex(f("infiniband.deth.q_key"), 8)
	}
	if (op % 32 == 19 || op % 32 == 20) { # tshark gives the first two fields the names of the RETH
		headers += 28
		more = more ", AtomicETH va " f("infiniband.reth.va") " rkey " f("infiniband.reth.r_key")
		more = more (op % 32 == 20 ? " add " : " swap ") f("infiniband.atomiceth.swapdt")
		if (op % 32 == 19)
			more = more " compare " f("infiniband.atomiceth.cmpdt")
	} else if (f("infiniband.reth.va") != "") {
		headers += 16
		more = more ", RETH va " f("infiniband.reth.va") " rkey " f("infiniband.reth.r_key") " length " f("infiniband.reth.dmalen") + 0
	}
	if (f("infiniband.aeth.syndrome") != "") {
		headers += 4
		more = more ", AETH " aeth(number(f("infiniband.aeth.syndrome"))) " MSN " f("infiniband.aeth.msn")
	}
	if (f("infiniband.atomicacketh.origremdt") != "") {
		headers += 8
		more = more ", was " f("infiniband.atomicacketh.origremdt")
	}
	if (f("infiniband.immdt") != "") {
		headers += 4
		more = more ", immediate " octets(f("infiniband.immdt"))
	}
	if (op % 32 == 22 || op % 32 == 23) {
		headers += 4
		more = more ", IETH rkey " octets(f("infiniband.ieth"))
	}
	if (set(f("infiniband.bth.a")))
		more = more ", ACK asked for"
	if (set(f("infiniband.bth.se")))
		more = more ", solicited"
	# Ignore complaints of other dissectors, which take the payload for another protocol.
	if (f("_ws.malformed") != "" && f("frame.protocols") ~ /infiniband$/)
		more = more ", MALFORMED"
	packet(what, what, f("udp.length") - headers - f("infiniband.bth.padcnt"),
		hex(f("infiniband.bth.destqp"), 6), hex(f("infiniband.bth.psn"), 6), substr(more, 3))
}

# aeth explains a syndrome: two bits of kind, five bits of value.
function aeth(syndrome,    kindof, value, text) {
	kindof = int(syndrome / 32) % 4
	value = syndrome % 32
	if (kindof == 0)
		text = "ACK"
	else if (kindof == 1)
		text = "RNR NAK, timer " value
	else if (kindof == 3)
		text = "NAK, " (value < 5 ? nak[value + 1] : "code " value)
	else
		text = "reserved"
	return sprintf("syndrome 0x%02x (%s)", syndrome, text)
}

# tcp names the messages of the exchange (docs/oob-protocol.md); bare ACKs are only counted.
function tcp(    payload, what, type, flags) {
	payload = f("tcp.payload")
	gsub(/:/, "", payload)
	flags = f("tcp.flags.str")
	gsub(/[^A-Z]/, "", flags)
	while (substr(payload, 1, 10) == "52564f0a01" && length(payload) >= 24) {
		type = number("0x" substr(payload, 11, 2))
		what = what ", " (type == 255 ? "error" : type in message ? message[type] : "message " type)
		payload = substr(payload, 25 + 2 * number("0x" substr(payload, 17, 8)))
	}
	if (what != "")
		what = "TCP " substr(what, 3)
	else if (f("tcp.len") + 0 > 0 || flags ~ /[SFR]/)
		what = "TCP" (flags ~ /S/ ? " SYN" : "") (flags ~ /F/ ? " FIN" : "") (flags ~ /R/ ? " RST" : "")
	packet(what, what == "" ? "bare TCP ACK" : "TCP", f("tcp.len"), "", "", "")
}

function set(flag) { return flag == "1" || flag == "True" }

# hex prints a number, decimal or with 0x, with digits hexadecimal ones.
function hex(text, digits) { return sprintf("0x%0" digits "x", number(text)) }

# octets returns a field that tshark prints as hexadecimal bytes, with or without 0x and
# colons.
function octets(text) {
	gsub(/^0x|:/, "", text)
	return "0x" text
}

# number converts text to a number; some awks cannot read hexadecimal.
function number(text,    i, sum) {
	if (text !~ /^0x/)
		return text + 0
	text = tolower(text)
	for (i = 3; i <= length(text); i++)
		sum = sum * 16 + index("123456789abcdef", substr(text, i, 1))
	return sum
}
