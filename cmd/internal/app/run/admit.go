// Admitting clients: how many, and how much memory they may use.

package run

import (
	"context"
	"math/bits"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/cmd/internal/view/trace"
	"github.com/rawverbs/rawverbs/internal/admission"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
)

// limits returns what the clients of a server may use, which is so many bytes of memory for all of them. One address
// gets half of the places and of the memory, unless other limits were chosen. Clients on this host share
// one address, so for them that half is not a limit.
func (o *ServerOptions) limits(memory int64) admission.Limits {
	half := func(chosen, of int64) int64 {
		if chosen > 0 {
			return chosen
		}
		return of - of/2
	}
	l := admission.Limits{Clients: o.MaxClients, Memory: memory, Waiting: admission.Waiting, Patience: admission.Patience, SharedPlaces: o.MaxClientsPerAddress == 0, SharedMemory: o.MaxMemoryPerAddress == 0}
	if o.Once { // the others are refused at once
		l.Waiting = 0
	}
	l.ClientsPerAddress = int(half(int64(o.MaxClientsPerAddress), int64(l.Clients)))
	l.MemoryPerAddress = half(int64(o.MaxMemoryPerAddress), l.Memory)
	return l
}

// admit takes a place and the memory for a client's job. The returned context ends if the client has
// to leave for another; its Motion is the client's. The error is jobless.
func (s *server) admit(ctx context.Context, in *incoming, need int64) (context.Context, error) {
	in.motion = kit.NewMotion()
	ctx, err := in.Admit(ctx, need, in.motion.Idle)
	if err != nil {
		return nil, s.refused(err)
	}
	return kit.WithMotion(ctx, in.motion), nil
}

// refused says why a client got no place, and what to try at the server.
func (s *server) refused(err error) error {
	var full *admission.FullError
	var closed *oob.ClosedError
	switch {
	case errors.As(err, &closed):
		return jobless{err, RefusedClosed}
	case !errors.As(err, &full):
		return jobless{err, RefusedStopping}
	case full.What == admission.Memory && full.Address.IsValid():
		return jobless{errors.Errorf("%v, or rdma_server --max-memory-per-address", full), RefusedMemory}
	case full.What == admission.Memory:
		return jobless{errors.Errorf("%v, or rdma_server --max-memory", full), RefusedMemory}
	case s.Once:
		err = errors.New("the server serves only one client and has it; try: a server without --once")
	case full.Address.IsValid():
		err = errors.Errorf("%v, or rdma_server --max-clients-per-address", full)
	default:
		err = errors.Errorf("%v, or rdma_server --max-clients", full)
	}
	return jobless{err, RefusedClients}
}

// Memory of a connection beside that of its job, in bytes. The sizes of requests are those of the soft
// device; those of RDMA devices are similar. TestMemoryOfConnections compares them with a real heap.
const (
	eachClient   = 1280 << 10 // messages that TCP has brought and nobody has read, see oob; goroutines, logs
	eachRecord   = 2 * trace.KeptByServer
	eachQP       = 48 << 10 // with its answers to READs, and goroutines that wait
	eachSend     = 176
	eachRecv     = 40
	eachElement  = 16
	eachComplete = 48
)

// memoryOf returns the bytes that a connection with cfg needs, with the job's.
func memoryOf(cfg *rc.Config, endpoint kit.Endpoint, most kit.Size, recorded bool) int64 {
	need := int64(eachClient)
	if recorded {
		need += eachRecord
	}
	if b, ok := endpoint.(kit.Budgeter); ok {
		need += b.Memory()
	} else {
		need += int64(most)
	}
	or := func(n uint32, otherwise int64) int64 {
		if n == 0 {
			return otherwise
		}
		return int64(n)
	}
	const usual, marks = 16, 1 // rc's default queue depth, and its own requests
	pairs := int64(max(cfg.QPs, 1))
	sends, recvs := or(cfg.Cap.MaxSendWR, usual)+marks, or(cfg.Cap.MaxRecvWR, usual)+marks
	if cfg.SRQ != nil {
		recvs = int64(cfg.SRQ.MaxWR)/pairs + marks
	}
	need += pairs * (eachQP + sends*(eachSend+or(cfg.Cap.MaxSendSGE, 1)*eachElement+int64(cfg.Cap.MaxInlineData)) +
		recvs*(eachRecv+or(cfg.Cap.MaxRecvSGE, 1)*eachElement))
	return need + (ring(2*pairs*sends)+ring(2*pairs*recvs))*eachComplete
}

// ring returns the entries of a completion queue: a power of two.
func ring(depth int64) int64 { return 1 << bits.Len64(uint64(depth-1)) }
