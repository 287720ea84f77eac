package workbench

import "testing"

// wrong are calls that a user of the free bench can make in its dialogs, and that are refused, behind a connected pair.
func wrong() map[string]Action {
	on := func(do, name string) Action { return Action{Do: do, Host: "client", Name: name} }
	with := func(do, name string, set func(a *Action)) Action {
		a := on(do, name)
		set(&a)
		return a
	}
	request := func(wr WR) Action { return post(wr)[0] }
	av := func(av AV) Action { return with("create_ah", "ah", func(a *Action) { a.PD, a.AV = thePD, &av }) }
	flag := func(id Num, opcode string, n uint32, flags ...string) WR {
		return WR{ID: id, Opcode: opcode, SGL: sge(0, n), Flags: flags, Remote: &Remote{MR: theMR}}
	}
	qp := func(cap Cap) Action {
		return with("create_qp", "more", func(a *Action) { a.PD, a.SendCQ, a.RecvCQ, a.Type, a.Cap = thePD, theCQ, theCQ, "RC", &cap })
	}
	region := func(length int, access ...string) Action {
		return with("reg_mr", "more", func(a *Action) { a.PD, a.Length, a.Access = thePD, length, access })
	}
	cq := func(depth int) Action { return with("create_cq", "more", func(a *Action) { a.Depth = depth }) }
	other := uint8(7)
	return map[string]Action{
		"a name twice":                          on("alloc_pd", thePD),
		"a name twice, an MR":                   on("alloc_pd", theMR),
		"a name twice, server":                  {Do: "alloc_pd", Host: "server", Name: thePD},
		"a name twice, server's MR":             {Do: "alloc_pd", Host: "server", Name: theMR},
		"a name that is none":                   on("alloc_pd", "1 x"),
		"a region without LOCAL_WRITE":          region(256, "REMOTE_WRITE"),
		"a region without LOCAL_WRITE, atomics": region(256, "REMOTE_WRITE", "REMOTE_ATOMIC"),
		"a region of 0":                         region(0, "LOCAL_WRITE"),
		"a region of -5":                        region(-5, "LOCAL_WRITE"),
		"a region of 70000":                     region(70000, "LOCAL_WRITE"),
		"a CQ of 0":                             cq(0),
		"a CQ of -1":                            cq(-1),
		"a CQ of 100000":                        cq(100000),
		"a QP of 10000 sends":                   qp(Cap{SendWR: 10000, RecvWR: 1, SendSGE: 1, RecvSGE: 1}),
		"a QP of 100 elements":                  qp(Cap{SendWR: 1, RecvWR: 1, SendSGE: 100, RecvSGE: 1}),
		"a QP of 100 receive elements":          qp(Cap{SendWR: 1, RecvWR: 1, SendSGE: 1, RecvSGE: 100}),
		"a QP of much inline":                   qp(Cap{SendWR: 1, RecvWR: 1, SendSGE: 1, RecvSGE: 1, Inline: 100000}),
		"an SRQ of 0":                           with("create_srq", "more", func(a *Action) { a.PD, a.MaxSGE = thePD, 1 }),
		"an SRQ of 10000":                       with("create_srq", "more", func(a *Action) { a.PD, a.MaxWR, a.MaxSGE = thePD, 10000, 1 }),
		"an SRQ of 100 elements":                with("create_srq", "more", func(a *Action) { a.PD, a.MaxWR, a.MaxSGE = thePD, 8, 100 }),
		"an AH of no GID":                       av(AV{GID: "x"}),
		"an AH of another index":                av(AV{GID: "10.0.0.2", SGIDIndex: &other}),
		"an AH of another port":                 av(AV{GID: "10.0.0.2", Port: &other}),
		"too much inline":                       request(flag(1, "SEND", 200, "INLINE")),
		"an inline READ":                        request(flag(1, "RDMA_READ", 8, "INLINE")),
		"many elements":                         request(WR{ID: 1, Opcode: "SEND", SGL: script3()}),
		"an atomic of 4":                        request(WR{ID: 1, Opcode: "ATOMIC_FETCH_AND_ADD", SGL: sge(0, 4), Remote: &Remote{MR: theMR}}),
		"an atomic at 4":                        request(WR{ID: 1, Opcode: "ATOMIC_FETCH_AND_ADD", SGL: sge(0, 8), Remote: &Remote{MR: theMR, Offset: 4}}),
		"an ATOMIC WRITE of 16":                 request(WR{ID: 1, Opcode: "ATOMIC_WRITE", SGL: sge(0, 16), Remote: &Remote{MR: theMR}}),
		"an ATOMIC WRITE at 4":                  request(WR{ID: 1, Opcode: "ATOMIC_WRITE", SGL: sge(0, 8), Remote: &Remote{MR: theMR, Offset: 4}}),
		"a FLUSH of no type":                    request(WR{ID: 1, Opcode: "FLUSH", Remote: &Remote{MR: theMR}}),
		"many receive elements":                 postRecv("client", theQP, WR{ID: 1, SGL: script3()})[0],
		"a write beyond a region":               with("write", theMR, func(a *Action) { a.Offset, a.Text = 100000, "x" }),
		"a wide timeout":                        move("client", theQP, "RTS", values{"TIMEOUT": 300})[0],
		"a large timeout":                       move("client", theQP, "RTS", values{"TIMEOUT": 50})[0],
		"a name of another kind":                with("reg_mr", "was", func(a *Action) { a.PD, a.Length = thePD, 8 }),
		"inline data of nowhere":                request(WR{ID: 1, Opcode: "SEND", SGL: sge(1000, 8), Flags: []string{"INLINE"}}),
		"a hex of z":                            with("write", theMR, func(a *Action) { a.Hex = "zz" }),
		"a long run":                            {Do: "run", NS: 1 << 60},
	}
}

// refusedTexts returns what the page shows of each call in wrong: the cause and the hint of a refusal, or the bench's own error.
func refusedTexts(t *testing.T) (all []string) {
	t.Helper()
	begin := script(connected(nil, nil), one(&Action{Do: "alloc_pd", Host: "client", Name: "was"}), one(&Action{Do: "close", Host: "client", Name: "was"}))
	for name, a := range wrong() {
		s := played(t, Setup{}, begin)
		switch r, err := s.Do(a); {
		case err != nil:
			all = append(all, err.Error())
		case r.Refused == nil:
			t.Errorf("%s is not refused", name)
		case r.Refused.Transition == nil:
			all = append(all, r.Refused.Cause, r.Refused.Hint)
		}
	}
	return all
}
