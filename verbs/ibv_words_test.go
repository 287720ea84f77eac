//go:build linux && cgo && !nolibibverbs

// Tests of ATOMIC WRITE and FLUSH on libibverbs: the requests that C gets, and those that it must not
// get.

package verbs

import (
	stderrors "errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/pkg/errors"
)

func TestAtomicWriteIsEncoded(t *testing.T) {
	f, qp := fakeQPBy(t, PostWRAPI, wide)
	qp.p.(*ibvQP).send.atomicWrite = true
	word := uint64(0x1122334455667788)
	sge := SGE{Addr: uint64(uintptr(unsafe.Pointer(&word))), Length: 8, LKey: 0x42}
	wr := SendWR{ID: 3, Opcode: OpAtomicWrite, Flags: SendSignaled, SGL: []SGE{sge}, RemoteAddr: 0xab8, RKey: 5}
	if err := qp.PostSend([]SendWR{{Opcode: OpSend}, wr, {ID: 4, Opcode: OpSend}}); err != nil {
		t.Fatal(err)
	}
	const cAtomicWrite = 15
	if got := f.Send(1); got.ID != 3 || got.Opcode != cAtomicWrite || got.Flags != 2 || got.RemoteAddr != 0xab8 || got.RKey != 5 || f.AtomicWrite() != word {
		t.Errorf("C saw %+v, word %#x", got, f.AtomicWrite())
	}
	if f.Calls() != 1 || f.WRs() != 3 {
		t.Errorf("%d requests in %d calls", f.WRs(), f.Calls())
	}
	for name, change := range map[string]func(*SendWR){
		"unaligned":    func(wr *SendWR) { wr.RemoteAddr++ },
		"no element":   func(wr *SendWR) { wr.SGL = nil },
		"4 bytes":      func(wr *SendWR) { wr.SGL = []SGE{{Addr: sge.Addr, Length: 4}} },
		"two elements": func(wr *SendWR) { wr.SGL = []SGE{sge, {}} },
	} {
		wr := wr
		change(&wr)
		if err := qp.PostSend([]SendWR{wr}); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if f.WRs() != 3 {
		t.Errorf("C was given %d requests", f.WRs()-3)
	}
}

// TestCreationWithoutAtomicWrite checks that a queue pair is created without ATOMIC WRITE if
// the device refuses it with ATOMIC WRITE.
func TestCreationWithoutAtomicWrite(t *testing.T) {
	loaded := loadIbv() == nil
	for _, test := range []struct {
		typ    QPType
		refuse syscall.Errno
		want   []bool // of each attempt: with ATOMIC WRITE
		fails  bool
	}{
		{RC, 0, []bool{true}, false},
		{RC, syscall.EOPNOTSUPP, []bool{true, false}, false},
		{RC, syscall.EINVAL, []bool{true, false}, false},
		{RC, syscall.ENOMEM, []bool{true}, true},
		{UD, syscall.EINVAL, []bool{false}, false},
	} {
		f, cq := fakeCQ(t)
		f.RefuseAtomicWrite(test.refuse)
		pd := &ibvPD{d: new(ibvDevice)}
		*(*unsafe.Pointer)(unsafe.Pointer(&pd.pd)) = f.PD() // a test cannot name the C type
		p, err := pd.CreateQP(ProviderQPInit{Type: test.typ, SendCQ: cq.p, RecvCQ: cq.p, Cap: wide, PostPath: PostWRAPI})
		if !slices.Equal(f.Creates(), test.want) {
			t.Errorf("%v refused with %v: attempts %v, want %v", test.typ, test.refuse, f.Creates(), test.want)
		}
		switch {
		case test.fails:
			if !errors.Is(err, test.refuse) {
				t.Errorf("%v, want %v", err, test.refuse)
			}
		case !loaded: // ibv_qp_to_qp_ex is libibverbs' own
		case err != nil:
			t.Errorf("%v refused with %v: %v", test.typ, test.refuse, err)
		default:
			qp := p.(*ibvQP)
			if last := test.want[len(test.want)-1]; qp.send.atomicWrite != last || qp.PostPath() != PostWRAPI {
				t.Errorf("%v refused with %v: ATOMIC WRITE %v, want %v", test.typ, test.refuse, qp.send.atomicWrite, last)
			}
			qp.send.free()
			qp.recv.free()
		}
	}
}

// TestMissingOpcodes checks that the error says how to get the call.
func TestMissingOpcodes(t *testing.T) {
	bothPaths(t, func(t *testing.T, path PostPath) {
		f, qp := fakeQPBy(t, path, wide)
		word := make([]uint64, 1)
		for wr, remedy := range map[*SendWR]string{
			{Opcode: OpAtomicWrite, SGL: []SGE{{Addr: uint64(uintptr(unsafe.Pointer(&word[0]))), Length: 8}}}: "try: use PostWRAPI as QPInit.PostPath",
			{Opcode: OpFlush, Flush: Flush{Type: FlushGlobal, Length: 8}}:                                     "try: use an OpRDMARead of the last byte",
		} {
			err := qp.PostSend([]SendWR{{Opcode: OpSend}, *wr})
			var pe *PostError
			if !errors.As(err, &pe) || pe.Index != 1 || !errors.Is(err, stderrors.ErrUnsupported) || !strings.Contains(err.Error(), remedy) {
				t.Errorf("%v: %v", wr.Opcode, err)
			}
		}
		if f.WRs() != 2 {
			t.Errorf("%d requests were posted, want the 2 SENDs", f.WRs())
		}
	})
}
