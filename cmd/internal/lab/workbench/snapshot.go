// Snapshots: everything there is at one moment, as JSON for the page. web/API.md describes the
// fields, and web/src/api.ts has the types.

package workbench

import (
	"bytes"
	"maps"
	"slices"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/simulated"
)

// Snapshot is a session at one moment.
type Snapshot struct {
	Now      int64        `json:"now_ns"`
	Next     *int64       `json:"next_ns"` // when the next event happens; nil: never
	Actions  int          `json:"actions"` // how many were carried out
	Hosts    []HostView   `json:"hosts"`
	InFlight []int        `json:"in_flight"` // packets on the wire, in the order of their arrival
	Packets  []PacketView `json:"packets"`   // those that were sent or have changed since
	Sent     int          `json:"packets_total"`
	Events   []Event      `json:"events"` // those since
	Logged   int          `json:"events_total"`
	Last     *Result      `json:"result"` // of the last action
	Goals    []GoalState  `json:"goals"`  // of the lesson
}

// HostView is a host.
type HostView struct {
	Name     string            `json:"name"`
	Device   string            `json:"device"`
	IP       string            `json:"ip"`
	GID      string            `json:"gid"`
	Objects  []ObjectView      `json:"objects"`
	Told     []ToldView        `json:"told"`    // what the peer told about its queue pairs
	Regions  []RegionView      `json:"regions"` // what the peer told about its regions
	Counters map[string]uint64 `json:"counters"`

	SelectiveRepeat bool `json:"selective_repeat"` // how its device repairs losses
}

// ToldView is an endpoint that the peer told.
type ToldView struct {
	QP   string `json:"qp"`
	QPN  uint32 `json:"qpn"`
	PSN  uint32 `json:"psn"`
	GID  string `json:"gid"`
	MTU  int    `json:"mtu"`
	QKey uint32 `json:"qkey"`
}

// RegionView is a region that the peer told.
type RegionView struct {
	MR     string `json:"mr"`
	Addr   Hex    `json:"addr"`
	RKey   Hex    `json:"rkey"`
	Length int    `json:"length"`
	LKey   bool   `json:"lkey,omitempty"` // it told its lkey instead
}

// Snapshot describes the session. Packets and events are those of the actions from since on; 0 is
// all of them.
func (s *Session) Snapshot(since int) Snapshot {
	v := Snapshot{Now: int64(s.world.Now()), Actions: len(s.actions), InFlight: []int{}, Packets: []PacketView{}, Events: []Event{},
		Sent: len(s.world.Packets()), Logged: len(s.log), Goals: s.goals}
	if at, any := s.world.Next(); any {
		ns := int64(at)
		v.Next = &ns
	}
	if v.Goals == nil {
		v.Goals = []GoalState{}
	}
	for _, p := range s.world.InFlight() {
		v.InFlight = append(v.InFlight, p.ID)
	}
	for i, p := range s.world.Packets() {
		if s.touched[i] > since {
			v.Packets = append(v.Packets, s.packetView(p))
		}
	}
	first, _ := slices.BinarySearchFunc(s.log, since, func(e Event, since int) int { return e.Action - since })
	v.Events = append(v.Events, s.log[first:]...)
	if n := len(s.results); n > 0 {
		v.Last = s.results[n-1]
	}
	for _, h := range s.hosts {
		v.Hosts = append(v.Hosts, h.view())
	}
	return v
}

func (h *host) view() HostView {
	gid := h.s.world.GID(h.side)
	v := HostView{Name: h.side.String(), Device: simulated.DeviceName, IP: gid.Addr().String(), GID: gid.String(),
		Objects: []ObjectView{}, Told: []ToldView{}, Regions: []RegionView{}, Counters: h.s.world.Counters(h.side),
		SelectiveRepeat: h.s.world.SelectiveRepeat(h.side)}
	for _, o := range h.objects {
		if !o.closed {
			v.Objects = append(v.Objects, h.objectView(o))
		}
	}
	for _, t := range h.told {
		v.Told = append(v.Told, ToldView{t.Name, t.QPN, t.PSN, t.GID.String(), t.MTU.Bytes(), t.QKey})
	}
	for _, r := range h.regions {
		v.Regions = append(v.Regions, RegionView{r.Name, Hex(r.Addr), Hex(r.RKey), r.Length, r.LKey})
	}
	return v
}

// memory is what must be compared before and after an action.
type memory struct {
	bytes  map[*object][]byte
	attrs  map[*object]*qpstate.Attr
	flying []int
}

// remember copies what an action may change.
func (s *Session) remember() memory {
	m := memory{bytes: map[*object][]byte{}, attrs: map[*object]*qpstate.Attr{}}
	for _, h := range s.hosts {
		for o := range h.open("MR") {
			m.bytes[o] = bytes.Clone(o.mr.Bytes())
		}
		for o := range h.open("QP") {
			if v, ok := s.world.InspectQP(h.side, o.qp); ok {
				m.attrs[o] = &v.Attr
			}
		}
	}
	for _, p := range s.world.InFlight() {
		m.flying = append(m.flying, p.ID)
	}
	return m
}

// held returns how many places in the host's send queues belong to requests that are done.
func (h *host) held() (n int) {
	for o := range h.open("QP") {
		n += len(h.s.world.Held(h.side, o.qp))
	}
	return n
}

// notice notes what the last action has changed. packets is how many there were before.
func (s *Session) notice(before memory, packets int) {
	for _, h := range s.hosts {
		for _, o := range h.objects {
			o.before = before.attrs[o]
			if o.kind == "MR" && !o.closed {
				o.changed = differences(before.bytes[o], o.mr.Bytes())
			}
		}
	}
	for range len(s.world.Packets()) - packets {
		s.sentBy = append(s.sentBy, len(s.actions)-1)
		s.touched = append(s.touched, len(s.actions))
	}
	for _, id := range before.flying {
		s.touched[id-1] = len(s.actions)
	}
}

// differences returns the runs of bytes in which b differs from a, as offset and length. A new
// region differs nowhere.
func differences(a, b []byte) [][2]int {
	runs := [][2]int{}
	if len(a) != len(b) {
		return runs
	}
	for i := 0; i < len(b); i++ {
		if a[i] == b[i] {
			continue
		}
		begin := i
		for i < len(b) && a[i] != b[i] {
			i++
		}
		runs = append(runs, [2]int{begin, i - begin})
	}
	return runs
}

// sorted returns the names of a set's bits in the order of their names in C.
func sorted[T ~uint32](set T, of map[string]T) []string {
	names := []string{}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if set&of[name] != 0 {
			names = append(names, name)
		}
	}
	return names
}
