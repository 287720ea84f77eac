package workbench

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
)

// TestRandomSessions plays sessions of random actions.
func TestRandomSessions(t *testing.T) {
	for _, seed := range []uint64{0, 1, 2, 3, 4, 5, 11, 21, 48} {
		playRandom(t, seed, 50) // the last action of 3 is refused
	}
}

func FuzzSession(f *testing.F) {
	f.Add(uint64(1), uint8(50))
	f.Fuzz(func(t *testing.T, seed uint64, n uint8) { playRandom(t, seed, int(n)) })
}

// longestRun is how long a random session lets everything happen. A queue pair may retry forever, and an action that
// waits for quiet then makes thousands of packets.
const longestRun = 10 * time.Millisecond

// pool has the actions that random sessions begin with.
var pool = sync.OnceValue(func() (pool []Action) {
	for _, f := range every() {
		pool = append(pool, f.Actions...)
	}
	slices.SortFunc(pool, func(a, b Action) int { return bytes.Compare(encoded(a), encoded(b)) }) // every is a map
	return pool
})

// playRandom plays n random actions twice. Nothing may panic, every packet must have all its
// fields, the programs must be written, and both runs must be the same.
func playRandom(t *testing.T, seed uint64, n int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	s := played(t, Setup{Seed: seed}, connected(nil, nil))
	for range n {
		a := mutated(t, rng, pool()[rng.IntN(len(pool()))], len(s.world.Packets()))
		if a.Do == "run" && a.NS == 0 {
			a.NS = int64(longestRun)
		}
		_, _ = s.Do(a) // many are wrong
	}
	want := snapshotText(t, s)
	if got := snapshotText(t, played(t, Setup{Seed: seed}, s.actions)); !bytes.Equal(got, want) {
		t.Errorf("seed %d: two runs differ", seed)
	}
	for _, p := range s.world.Packets() {
		bits := 0
		for _, f := range p.Fields() {
			bits += f.Width
		}
		if bits != 8*len(p.Frame) {
			t.Errorf("seed %d: the fields of packet %d have %d bits, want %d", seed, p.ID, bits, 8*len(p.Frame))
		}
	}
	for _, language := range []string{"c", "go"} {
		if _, err := s.Program(language); err != nil {
			t.Error(err)
		}
	}
}

func encoded(a Action) []byte {
	text, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	return text
}

// mutated returns a copy of an action with something changed.
func mutated(t *testing.T, rng *rand.Rand, of Action, packets int) (a Action) {
	t.Helper()
	if err := json.Unmarshal(encoded(of), &a); err != nil { // a deep copy
		t.Fatal(err)
	}
	if a.Packet > 0 || rng.IntN(4) == 0 && packets > 0 {
		a = Action{Do: []string{"drop", "duplicate", "delay", "reorder", "corrupt", "deliver"}[rng.IntN(6)], Packet: packets - rng.IntN(min(packets, 6)+1),
			NS: rng.Int64N(1e6), Bit: rng.IntN(800)}
		return a
	}
	switch rng.IntN(5) {
	case 0:
		if a.Host != "" {
			a.Host = []string{"client", "server"}[rng.IntN(2)]
		}
	case 1:
		if states := qpstate.States(); a.Attr != nil {
			a.Attr["STATE"] = []byte(`"` + states[rng.IntN(len(states))].Name() + `"`)
		}
		if len(a.Mask) > 1 {
			a.Mask = slices.Delete(a.Mask, 1, 2)
		}
	case 2:
		for i := range a.WRs {
			w := &a.WRs[i]
			w.ID = Num(rng.Uint64())
			if w.Opcode != "" {
				names := slices.Sorted(func(yield func(string) bool) {
					for name := range opcodes {
						if !yield(name) {
							return
						}
					}
				})
				w.Opcode = names[rng.IntN(len(names))]
			}
			for j := range w.SGL {
				w.SGL[j].Offset, w.SGL[j].Length = rng.IntN(300)-20, uint32(rng.IntN(600))
			}
			w.Flags = []string{"SIGNALED", "FENCE", "SOLICITED", "INLINE"}[:rng.IntN(5)]
			if w.Remote != nil {
				w.Remote.Offset = rng.IntN(300) - 20
			}
		}
	case 3:
		a = Action{Do: []string{"step", "run", "step", "step"}[rng.IntN(4)], NS: rng.Int64N(1e7)}
	}
	return a
}
